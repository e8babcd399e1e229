//! Events with who received them, and the servers of the installation.

use anyhow::{Context, Result, ensure};
use semel_api::types::{ServerState, StartRun};
use semel_model::{Right, Rights};
use semel_testkit::until_some;
use serde_json::json;

use super::Browser;
use crate::world::{World, add_token_with, patience_span, refused};

const EMITTING: &str =
    "trigger: { api: {} }\nsteps:\n  - { id: tell, emit: { event: order.paid } }\n";

const TAKING: &str = "trigger: { event: { name: order.paid } }\nsteps:\n  \
    - { id: count, kv: { add: paid } }\n";

#[tokio::test]
async fn an_event_leads_to_the_run_that_it_started_and_to_who_emitted_it() -> Result<()> {
    let world = World::start().await?;
    world.publish("taking", TAKING).await?;
    world.publish("emitting", EMITTING).await?;
    let ask = StartRun {
        key: Some("o-1".to_owned()),
        input: json!({}),
        ..StartRun::default()
    };
    let patience = Some(patience_span());
    let emitted = world
        .client
        .start_run(&"emitting".parse()?, &ask, patience)
        .await?;
    let listed = world.client.list_events(&Default::default()).await?.items;
    let event = listed.first().context("an event")?;
    let detail = until_some("the event to start a run", async || {
        let detail = world.client.get_event(event.id).await?;
        let started = detail.flows.iter().any(|it| it.run.is_some());
        Ok(started.then_some(detail))
    })
    .await?;
    let browser = Browser::signed_in(&world).await?;

    let list = browser.page("/console/main/events").await?;
    let page = browser
        .page(&format!("/console/main/events/{}", event.id))
        .await?;
    let of_run = browser
        .page(&format!("/console/main/runs/{}", event.run))
        .await?;
    let of_effect = browser
        .page(&format!("/console/main/effects/{}", event.id))
        .await?;

    assert_eq!(
        (listed.len(), event.event.as_deref()),
        (1, Some("order.paid"))
    );
    assert_eq!((event.run, detail.flows.len()), (emitted.body.run, 1));
    let run = detail.flows[0].run.context("a run")?;
    ensure!(
        list.contains("order.paid") && list.contains("o-1"),
        "{list}"
    );
    ensure!(page.contains("1 run was started from it"), "{page}");
    ensure!(
        page.contains(&format!("/console/main/runs/{run}")),
        "{page}"
    );
    ensure!(
        page.contains(&format!("/console/main/runs/{}", event.run)),
        "{page}"
    );
    let leads = format!("href=\"/console/main/events/{}\"", event.id);
    for shown in [&of_run, &of_effect] {
        ensure!(shown.contains(&leads), "who received it: {shown}");
    }
    let taken = world.client.get_run(run).await?;
    assert_eq!(taken.run.flow, "taking");
    Ok(())
}

#[tokio::test]
async fn an_effect_that_is_no_event_is_none() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "counting",
            "trigger: { api: {} }\nsteps:\n  - { id: one, kv: { add: n } }\n",
        )
        .await?;
    let patience = Some(patience_span());
    let ask = StartRun {
        key: Some("o-1".to_owned()),
        ..StartRun::default()
    };
    let run = world
        .client
        .start_run(&"counting".parse()?, &ask, patience)
        .await?;
    let effect = world.client.get_run(run.body.run).await?.effects.pop();
    let effect = effect.context("an effect")?.id;

    let shown = world.client.get_event(effect).await;

    assert_eq!(refused(shown)?, semel_api::Code::EffectNotFound);
    ensure!(
        world
            .client
            .list_events(&Default::default())
            .await?
            .items
            .is_empty()
    );
    Ok(())
}

#[tokio::test]
async fn servers_are_shown_to_who_manages_the_installation() -> Result<()> {
    let world = World::start().await?;
    let most = Rights::ALL.without([Right::Instance].into_iter().collect());
    let token = add_token_with(world.engine.cell(), "most", most).await?;
    let limited = semel_api::Client::new(world.client.base(), &token)?;
    let browser = Browser::with_rights(&world, "others", most).await?;

    let servers = world.client.list_servers().await?;
    let denied = limited.list_servers().await;
    let page = browser.page("/console/main/servers").await?;

    let [one] = servers.servers.as_slice() else {
        anyhow::bail!("one server: {servers:?}");
    };
    assert_eq!(
        (one.state, one.version.as_str()),
        (ServerState::Live, env!("CARGO_PKG_VERSION"))
    );
    ensure!(one.expires_at > one.started_at);
    assert_eq!(refused(denied)?, semel_api::Code::RightMissing);
    ensure!(page.contains("does not have the right instance"), "{page}");
    ensure!(!page.contains(&one.process), "{page}");
    Ok(())
}
