//! The console by keyboard alone, in a real browser: nothing here points at anything.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use semel_api::Client;
use semel_api::types::{Promote, PushFlow, RevokeToken, RunStatus, StartRun};
use semel_model::Right;
use semel_testkit::until;
use serde_json::json;
use tokio::runtime::Handle;

use super::browser::{browse, link, link_of};
use super::stage::Stage;
use crate::world::{World, add_token_with, patience_span};

/// The longest that pages are shown to who was revoked.
const OUT_WITHIN: Duration = Duration::from_secs(5);

#[tokio::test]
async fn an_order_is_found_by_its_key_and_read_as_charged_once() -> Result<()> {
    let stage = Stage::start().await?;
    let link = link(&stage).await?;

    let verdict = browse(move |browser| {
        browser.open(&link, "location.pathname === '/console/main/'")?;
        browser.press("/")?;
        browser.until("document.activeElement.id === 'q'")?;
        browser.type_text("o-1")?;
        browser.press("Enter")?;
        browser.until("document.querySelector('.verdict')")?;
        browser.eval("document.querySelector('.verdict').innerText")
    })
    .await?;

    let verdict = verdict.as_str().context("a text")?;
    ensure!(verdict.contains("charge was done once."), "{verdict}");
    Ok(())
}

#[tokio::test]
async fn a_doubt_is_settled_with_the_fields_that_later_steps_read() -> Result<()> {
    let stage = Stage::start().await?;
    let link = link(&stage).await?;

    browse(move |browser| {
        browser.open(&link, "location.pathname === '/console/main/'")?;
        browser.press("g")?;
        browser.press("d")?;
        browser.until(
            "location.pathname.endsWith('/doubts') && document.querySelector('.doubts a')",
        )?;
        browser.tab_to("document.activeElement.closest('.doubts h3')")?;
        browser.press("Enter")?;
        browser.until("document.querySelector('#settle form')")?;
        browser.tab_to("document.activeElement.value === 'happened'")?;
        browser.press(" ")?;
        browser.tab_to("document.activeElement.name === 'result'")?;
        browser.type_text("{\"id\": \"ch_9\"}")?;
        browser.tab_to(
            "document.activeElement.closest('#settle') && document.activeElement.name === 'reason'",
        )?;
        browser.type_text("seen in their list")?;
        browser.tab_to("document.activeElement.innerText === 'Settle'")?;
        browser.press("Enter")?;
        browser.until(
            "document.querySelector('#audit') && document.body.innerText.includes('It happened.')",
        )?;
        ensure!(browser.seen.is_empty(), "{:?}", browser.seen);
        Ok(())
    })
    .await?;

    let patience = patience_span();
    let end = stage.world.client.await_run(stage.stopped, patience);
    let end = end.await?;
    assert_eq!(end.state, RunStatus::Succeeded);
    assert_eq!(end.result, Some(json!({ "id": "ch_9" })));
    Ok(())
}

#[tokio::test]
async fn an_approval_is_decided_on_a_narrow_screen() -> Result<()> {
    let stage = Stage::start().await?;
    let link = link(&stage).await?;

    browse(move |browser| {
        browser.look(320, 640, false)?;
        browser.open(&link, "location.pathname === '/console/main/'")?;
        browser.press("g")?;
        browser.press("a")?;
        browser.until(
            "location.pathname.endsWith('/approvals') && document.querySelector('tbody a')",
        )?;
        browser.press("j")?;
        browser.press("Enter")?;
        browser.until("document.querySelector('#decide form')")?;
        let width = browser.eval("document.documentElement.scrollWidth")?;
        ensure!(
            width.as_u64().is_some_and(|width| width <= 320),
            "{width} wide"
        );
        browser.tab_to("document.activeElement.innerText === 'Approve'")?;
        browser.press("Enter")?;
        browser.until("document.querySelector('.verdict')?.innerText.startsWith('Approved by')")?;
        Ok(())
    })
    .await?;

    let patience = patience_span();
    let end = stage.world.client.await_run(stage.waiting, patience);
    assert_eq!(end.await?.state, RunStatus::Succeeded);
    Ok(())
}

/// Counts, and fails behind that.
const FAILING: &str = "trigger: { api: {} }\nsteps:\n  - { id: one, kv: { add: counted } }\n  \
    - { id: stop, fail: { code: shut, message: shut } }\n";

/// Counts, and ends well.
const MENDED: &str =
    "flow: failing\ntrigger: { api: {} }\nsteps:\n  - { id: one, kv: { add: counted } }\n";

/// Waits until the preview of the one plan is complete.
async fn until_planned(world: &World) -> Result<()> {
    let look = async || {
        let plans = world.client.list_replay_plans(&Default::default()).await?;
        Ok(plans.items.into_iter().next().map(|plan| plan.state))
    };
    let is_planned = |state: &Option<String>| state.as_deref() == Some("planned");
    until("the preview to be complete", look, is_planned).await?;
    Ok(())
}

#[tokio::test]
async fn a_range_of_runs_is_replayed_from_the_preview_to_the_end() -> Result<()> {
    let world = Arc::new(World::start().await?);
    world.publish("failing", FAILING).await?;
    let flow = "failing".parse()?;
    let patience = Some(patience_span());
    for key in ["a", "b"] {
        let start = StartRun {
            key: Some(key.to_owned()),
            input: json!({}),
            ..StartRun::default()
        };
        world.client.start_run(&flow, &start, patience).await?;
    }
    let source = MENDED.to_owned();
    world.client.push_flow(&flow, &PushFlow { source }).await?;
    let published = world.client.publish_flow(&flow, "second").await?;
    let promote = Promote {
        release: published.body.release,
        override_reason: None,
    };
    world.client.promote_flow(&flow, &promote, "second").await?;
    let link = link_of(&world).await?;
    let replays = format!("http://{}/console/main/replays", world.address);
    let (handle, at) = (Handle::current(), world.clone());

    browse(move |browser| {
        browser.open(&link, "location.pathname === '/console/main/'")?;
        browser.open(&replays, "document.querySelector('#new form')")?;
        browser.tab_to(
            "document.activeElement.closest('#new') && document.activeElement.name === 'flow'",
        )?;
        browser.type_text("failing")?;
        browser.tab_to(
            "document.activeElement.closest('#new') && document.activeElement.name === 'reason'",
        )?;
        browser.type_text("it is open now")?;
        browser.tab_to(
            "document.activeElement.closest('#new') && document.activeElement.type === 'submit'",
        )?;
        browser.press("Enter")?;
        browser.until("/replays\\/./.test(location.pathname)")?;
        handle.block_on(until_planned(&at))?;
        browser.eval("window.isOld = true; location.reload()")?;
        browser.until("!window.isOld && document.querySelector('button[value=apply]')")?;
        browser.tab_to("document.activeElement.name === 'reason'")?;
        browser.type_text("as shown")?;
        browser.tab_to("document.activeElement.value === 'apply'")?;
        browser.press("Enter")?;
        browser.until("!document.querySelector('button[value=apply]')")?;
        Ok(())
    })
    .await?;

    let done = semel_api::types::RunFilter {
        flow: "failing".parse().ok(),
        state: Some(RunStatus::Succeeded),
        ..Default::default()
    };
    let look = async || Ok(world.client.list_runs(&done).await?.items.len());
    until("both runs to succeed", look, |runs| *runs == 2).await?;
    assert_eq!(world.kv("counted").await?, json!(2), "each counted once");
    Ok(())
}

#[tokio::test]
async fn who_is_revoked_is_out_within_five_seconds() -> Result<()> {
    let world = Arc::new(World::start().await?);
    let rights = [Right::Read, Right::Payload].into_iter().collect();
    let token = add_token_with(world.engine.cell(), "lost", rights).await?;
    let lost = Client::new(world.client.base(), &token)?;
    let code = lost.make_sign_in_code().await?;
    let link = format!("http://{}{}", world.address, code.path);
    let home = format!("http://{}/console/main/", world.address);
    let (handle, at) = (Handle::current(), world.clone());

    browse(move |browser| {
        browser.open(&link, "location.pathname === '/console/main/'")?;
        let revoke = async {
            let tokens = at.client.list_tokens(&Default::default()).await?.items;
            let found = tokens.iter().find(|it| it.name == "lost");
            let id = found.context("the token")?.id;
            let why = RevokeToken::default();
            at.client.revoke_token(id, &why, "revoke").await?;
            anyhow::Ok(())
        };
        handle.block_on(revoke)?;
        let revoked = Instant::now();
        loop {
            // A page that was asked for in time may be shown late, on a machine that stands still.
            let asked = revoked.elapsed();
            browser.press("g")?;
            browser.press("r")?;
            browser
                .until("['/console/sign-in', '/console/main/runs'].includes(location.pathname)")?;
            if browser.eval("location.pathname")? == "/console/sign-in" {
                return Ok(());
            }
            ensure!(asked < OUT_WITHIN, "a page is shown after {asked:?}");
            browser.open(&home, "location.pathname !== '/console/main/runs'")?;
        }
    })
    .await
}

#[tokio::test]
async fn a_viewer_comes_to_no_button_that_acts_and_reads_which_right_is_missing() -> Result<()> {
    let stage = Stage::start().await?;
    let rights = [Right::Read, Right::Payload].into_iter().collect();
    let token = add_token_with(stage.world.engine.cell(), "viewer", rights).await?;
    let viewer = Client::new(stage.world.client.base(), &token)?;
    let code = viewer.make_sign_in_code().await?;
    let base = format!("http://{}", stage.world.address);
    let link = format!("{base}{}", code.path);
    let page = format!("{base}/console/main/effects/{}", stage.doubt.id);

    browse(move |browser| {
        browser.open(&link, "location.pathname === '/console/main/'")?;
        browser.open(&page, "document.querySelector('#settle form')")?;
        let reached = browser.tab_through("document.activeElement.closest('#settle form')")?;
        ensure!(!reached, "a button that is switched off takes no focus");
        let said = browser.eval("document.querySelector('#settle .missing').innerText")?;
        ensure!(
            said == "The token viewer does not have the right settle.",
            "{said}"
        );
        Ok(())
    })
    .await
}
