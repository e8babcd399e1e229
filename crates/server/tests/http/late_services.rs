//! Background services that are late: the API, the console and the metrics say which, and what to do.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use semel_api::types::{ServiceState, ServiceStatus};
use semel_store::clock;
use semel_testkit::until;
use serde_json::Value;

use crate::console::Browser;
use crate::world::World;

/// Longer than any service may be silent that is looked at here, and shorter than the tokens last.
const LONG: Duration = Duration::from_secs(1_800);

async fn status(world: &World, service: &str) -> Result<ServiceStatus> {
    let servers = world.client.list_servers().await?;
    let mut services = servers.services.into_iter();
    services
        .find(|it| it.service == service)
        .with_context(|| format!("no service {service}"))
}

#[tokio::test]
async fn a_duty_that_is_late_is_shown_with_what_to_do_until_it_is_done_again() -> Result<()> {
    let world = World::start().await?;
    let client = world.database.connect().await?;
    // What retention deletes: its passes fail from now on.
    let held = "BEGIN; LOCK TABLE llm_answers IN ACCESS EXCLUSIVE MODE";
    client.batch_execute(held).await?;
    clock::move_ahead(world.engine.cell(), LONG).await?;
    let browser = Browser::signed_in(&world).await?;

    let look = async || {
        ensure!(
            world.engine.whole_pass("duty_marks").await,
            "no such service"
        );
        status(&world, "retention").await
    };
    let late = until("retention to be late", look, |it| {
        it.state == ServiceState::Late
    })
    .await?;
    let page = browser.page("/console/main/servers").await?;
    // As time was moved, the server begins another session first.
    let overview = async || browser.page("/console/main/").await;
    let words = ["service is late", "services are late"];
    let is_told = |page: &String| words.iter().any(|it| page.contains(it));
    until("the overview to say what is late", overview, is_told).await?;
    let metrics = world.metrics().await?.text();
    let ready = world.bare.get("/readyz").await?;
    client.batch_execute("ROLLBACK").await?;
    let look = async || {
        for service in ["retention", "duty_marks"] {
            ensure!(
                world.engine.whole_pass(service).await,
                "no service {service}"
            );
        }
        status(&world, "retention").await
    };
    let done = until("retention to be done", look, |it| {
        it.state == ServiceState::OnTime
    })
    .await?;

    let undone = "Deliveries, answers and records whose time is over stay";
    let hint = late.hint.as_deref().unwrap_or_default();
    ensure!(hint.starts_with(undone), "{late:?}");
    ensure!(late.is_duty && late.held_here, "{late:?}");
    ensure!(page.contains(undone), "{page}");
    let line = "semel_service_late{service=\"retention\"} 1";
    ensure!(metrics.contains(line), "{metrics}");
    assert_eq!(
        ready.status.as_u16(),
        200,
        "deliveries are taken all the same"
    );
    let ready: Value = ready.json()?;
    ensure!(ready["late_services"].as_u64() > Some(0), "{ready}");
    assert_eq!(done.hint, None);
    Ok(())
}

#[tokio::test]
async fn passes_are_counted_by_service_so_that_a_test_can_wait_for_whole_ones() -> Result<()> {
    let world = World::start().await?;
    let passes = || world.engine.metrics().service_passes.get("alerts");

    let before = passes();
    for _ in 0..2 {
        ensure!(world.engine.whole_pass("alerts").await, "no such service");
    }
    let after = passes();
    let metrics = world.metrics().await?.text();

    ensure!(after >= before + 2, "{before} passes, then {after}");
    let counted = "semel_service_passes_total{service=\"alerts\"}";
    ensure!(metrics.contains(counted), "{metrics}");
    ensure!(
        !world.engine.whole_pass("nothing").await,
        "there is no such service"
    );
    Ok(())
}
