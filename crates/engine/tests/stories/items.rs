//! Items of lists that fail: which others are tried, and what is tried again.

use std::time::Duration;

use anyhow::{Context, Result};
use semel_engine::ResumeError;
use semel_model::RunId;
use semel_model::run::RunState;
use semel_store::child_runs::{self, ChildRunFilter, ChildRunView};
use semel_store::runs::RunSnapshot;
use semel_testkit::patience;
use semel_testkit::peer::Behaviour;
use serde_json::{Value, json};

use crate::control::fault;
use crate::world::World;

const NIGHTLY: &str = "steps:
  - id: each
    foreach:
      in: input.items
      key: item
      on_error: ON_ERROR
      steps:
        - { id: bill, http: { post: 'PEER/plain/bill/${{ item }}', text: hi } }
  - { id: after, http: { post: PEER/plain/after, text: hi } }
result: '[steps.each.result.succeeded, steps.each.result.failed]'
";

async fn played(on_error: &str) -> Result<(World, RunId, RunSnapshot)> {
    let world = World::start().await?;
    world
        .publish(&NIGHTLY.replace("ON_ERROR", on_error))
        .await?;
    for item in ["b", "d"] {
        let path = format!("/plain/bill/{item}");
        world.peer.next(&path, Behaviour::RefuseWith(422)).await?;
    }
    let (accepted, end) = world
        .play(r#"{"id":"1","items":["a","b","c","d"]}"#)
        .await?;
    Ok((world, accepted.run, end))
}

async fn resume(world: &World, run: RunId) -> Result<RunSnapshot> {
    let id = world.namespace_id;
    world.engine.resume(id, run, "fixed", "test").await?;
    let end = world.engine.await_end(run, patience()).await?;
    end.context("a run")
}

async fn items(world: &World, run: RunId) -> Result<Vec<ChildRunView>> {
    Ok(child_runs::list(
        world.engine.cell().of(run),
        run,
        ChildRunFilter::default(),
        100,
    )
    .await?)
}

fn states(items: &[ChildRunView]) -> Vec<&str> {
    items.iter().map(|item| item.state.as_str()).collect()
}

#[tokio::test]
async fn all_items_are_tried_and_resuming_tries_only_the_failed_ones() -> Result<()> {
    let (world, run, end) = played("collect").await?;

    let told = fault(&end)?;
    assert_eq!(
        (end.state, told.code.as_str()),
        (RunState::Failed, "item-failed")
    );
    for said in ["item b", "item d", "2 done, 2 failed"] {
        assert!(told.message.contains(said), "{}", told.message);
    }
    let stand = items(&world, run).await?;
    assert_eq!(
        states(&stand),
        ["succeeded", "failed", "succeeded", "failed"]
    );
    assert_eq!(world.peer.count("/plain/after").await?.calls, 0);

    let end = resume(&world, run).await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(end.result.as_deref(), Some("[4,0]"));
    for (item, calls) in [("a", 1), ("b", 2), ("c", 1), ("d", 2)] {
        let count = world.peer.count(&format!("/plain/bill/{item}")).await?;
        assert_eq!((count.calls, count.effects), (calls, 1), "{item}");
    }
    assert_eq!(world.peer.count("/plain/after").await?.effects, 1);
    Ok(())
}

#[tokio::test]
async fn an_item_is_resumed_alone_where_its_run_continued_without_it() -> Result<()> {
    let (world, run, end) = played("continue").await?;
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    let failed = items(&world, run).await?[1].run;

    let again = resume(&world, failed).await?;

    assert_eq!(again.state, RunState::Succeeded, "{again:?}");
    let stand = items(&world, run).await?;
    assert_eq!(
        states(&stand),
        ["succeeded", "succeeded", "succeeded", "failed"]
    );
    assert_eq!(world.peer.count("/plain/bill/b").await?.effects, 1);
    assert_eq!(world.peer.count("/plain/bill/d").await?.effects, 0);
    assert_eq!(
        world.peer.count("/plain/after").await?.effects,
        1,
        "the run is over"
    );
    let whole = world
        .engine
        .await_end(run, Duration::ZERO)
        .await?
        .context("a run")?;
    let result: Value = serde_json::from_str(&whole.result.unwrap_or_default())?;
    assert_eq!(result, json!([2, 2]), "the result of a run is final");
    Ok(())
}

#[tokio::test]
async fn an_item_of_a_failed_run_is_resumed_with_its_run() -> Result<()> {
    let (world, run, _) = played("collect").await?;
    let failed = items(&world, run).await?[1].run;

    let alone = world
        .engine
        .resume(world.namespace_id, failed, "fixed", "test");

    match alone.await {
        Err(ResumeError::Unfit { hint, .. }) => assert!(hint.contains(&run.to_string()), "{hint}"),
        other => anyhow::bail!("not refused: {other:?}"),
    }
    Ok(())
}
