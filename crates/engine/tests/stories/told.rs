//! Messages to runs and from runs: events, callback addresses in branches, failures.

use anyhow::{Context, Result};
use semel_testkit::{patience, until};
use serde_json::json;

use crate::calls::{json_of, until_dispatched};
use crate::control::start;
use crate::world::World;

#[tokio::test]
async fn an_event_completes_only_the_waits_that_match_it() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "steps:\n  - id: shipped\n    wait: { event: order.shipped, match: event.id == input.id && event.parcels > 1, within: 30d }\n\
             result: steps.shipped.result.by\n",
        )
        .await?;
    let source = "flow: shipper\ntrigger:\n  api: {}\nsteps:\n  - id: tell\n    \
                  emit: { event: order.shipped, data: { id: '${{ run.key }}', parcels: '${{ size(run.key) }}', by: post } }\n";
    world.publish_source(source).await?;
    let mine = world.deliver(r#"{"id":"aa"}"#).await?.run;
    let small = world.deliver(r#"{"id":"b"}"#).await?.run;
    let other = world.deliver(r#"{"id":"cc"}"#).await?.run;
    for run in [mine, small, other] {
        until_waiting(&world, run).await?;
    }

    start(&world, "shipper", "aa").await?;
    start(&world, "shipper", "b").await?;
    let end = world.engine.await_end(mine, patience()).await?;

    assert_eq!(end.context("a run")?.result.as_deref(), Some("\"post\""));
    until_dispatched(&world).await?;
    let open = "SELECT count(*)::text FROM waits WHERE state = 'open'";
    assert_eq!(json_of(&world, open).await?, json!(2), "none of the others");
    for run in [small, other] {
        until_waiting(&world, run).await?;
    }
    Ok(())
}

#[tokio::test]
async fn an_earlier_step_hands_out_the_address_of_a_wait_in_a_branch() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "steps:\n  - id: tell\n    kv: { set: url, value: '${{ waits.answer.url }}' }\n  - id: both\n    parallel:\n      branches:\n\
             \x20       - steps: [{ id: answer, wait: { callback: true, within: 30d } }]\n\
             \x20       - steps: [{ id: other, function: '1' }]\nresult: steps.answer.result\n",
        )
        .await?;
    let run = world.deliver(r#"{"id":"1"}"#).await?.run;
    until_waiting(&world, run).await?;
    let url = world.kv("url").await?;
    let token = url.as_str().and_then(|url| url.rsplit('/').next());

    let token = token.context("an address")?;
    let called = world.engine.call_back(token, b"42").await?;
    let end = world.engine.await_end(run, patience()).await?;

    assert_eq!(end.context("a run")?.result.as_deref(), Some("42"));
    assert_ne!(called.run, run, "the branch is a run of its own");
    assert!(world.engine.call_back(token, b"43").await?.replayed);
    Ok(())
}

#[tokio::test]
async fn a_flow_can_take_the_event_of_failed_runs() -> Result<()> {
    let world = World::start().await?;
    let source = "flow: watchman\ntrigger:\n  event: { name: semel.run.failed }\nsteps:\n  - id: note\n    \
                  kv: { set: 'failed/${{ input.key }}', value: '${{ input }}' }\n\
                  \x20 - { id: no, fail: { message: the watchman fails as well } }\n";
    world.publish_source(source).await?;
    world
        .publish("steps:\n  - { id: no, fail: { code: closed, message: not today } }\n")
        .await?;

    let (accepted, _) = world.play(r#"{"id":"1"}"#).await?;
    let told = async |entry: &str| {
        let look = async || world.kv(entry).await;
        until("the watchman's note", look, |note| !note.is_null()).await
    };
    let first = told("failed/1").await?;
    // The watchman's first run has failed as well when its second one begins.
    until_failed(&world, 2).await?;
    world.play(r#"{"id":"2"}"#).await?;
    told("failed/2").await?;
    until_failed(&world, 4).await?;
    until_dispatched(&world).await?;

    assert_eq!(first["run"], json!(accepted.run.to_string()));
    assert_eq!(
        (&first["flow"], &first["code"]),
        (&json!("story"), &json!("closed"))
    );
    let runs = json_of(&world, "SELECT count(*)::text FROM runs").await?;
    assert_eq!(runs, json!(4), "the watchman does not watch itself");
    Ok(())
}

/// Waits until so many runs have failed.
async fn until_failed(world: &World, runs: i64) -> Result<()> {
    let failed = "SELECT count(*)::text FROM runs WHERE state = 'failed'";
    let what = format!("{runs} runs to fail");
    until(
        &what,
        async || json_of(world, failed).await,
        |count| count.as_i64() >= Some(runs),
    )
    .await?;
    Ok(())
}

async fn until_waiting(world: &World, run: semel_model::RunId) -> Result<()> {
    let look = async || {
        let found =
            semel_store::runs::find(world.engine.cell().of(run), world.namespace_id, run).await?;
        let found = found.context("a run")?;
        Ok((found.stage, found.held))
    };
    let waiting = (Some(semel_store::runs::Stage::Waiting), false);
    until(&format!("{run} to wait"), look, |seen| *seen == waiting).await?;
    Ok(())
}
