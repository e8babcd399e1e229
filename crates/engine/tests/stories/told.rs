//! Messages to runs and from runs: events, callback addresses in branches, failures.

use std::time::Duration;

use anyhow::{Context, Result};
use semel_testkit::patience;
use serde_json::json;

use crate::control::start;
use crate::world::{World, soon};

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
    tokio::time::sleep(Duration::from_millis(500)).await;
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
    let told = soon(async || {
        let told = world.kv("failed/1").await?;
        Ok((!told.is_null()).then_some(told))
    })
    .await?;

    assert_eq!(told["run"], json!(accepted.run.to_string()));
    assert_eq!(
        (&told["flow"], &told["code"]),
        (&json!("story"), &json!("closed"))
    );
    tokio::time::sleep(Duration::from_secs(2)).await;
    let filter = semel_store::runs::RunFilter::default();
    let runs =
        semel_store::runs::list(world.engine.cell().every(), world.namespace_id, &filter, 50)
            .await?;
    assert_eq!(runs.items.len(), 2, "the watchman does not watch itself");
    Ok(())
}

async fn until_waiting(world: &World, run: semel_model::RunId) -> Result<()> {
    soon(async || {
        let found =
            semel_store::runs::find(world.engine.cell().of(run), world.namespace_id, run).await?;
        let found = found.context("a run")?;
        let waits = found.stage == Some(semel_store::runs::Stage::Waiting) && !found.held;
        Ok(waits.then_some(()))
    })
    .await
}
