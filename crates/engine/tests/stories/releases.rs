//! Releases: a run stays on the one that it started on.

use anyhow::{Context, Result};
use semel_model::RunId;
use semel_model::run::RunState;
use semel_store::waits;
use semel_testkit::{patience, until_some};
use serde_json::json;

use crate::world::World;

fn release(answer: &str) -> String {
    format!(
        "steps:\n  - {{ id: word, function: '\"{answer}\"' }}\n  - {{ id: go, wait: {{ callback: true, within: 30d }} }}\n\
         \x20 - id: {answer}\n    http: {{ post: PEER/plain/{answer}, text: hi }}\n\
         result: '[steps.word.result, \"{answer}\"]'\n"
    )
}

/// Completes the wait of a run.
async fn let_go(world: &World, run: RunId) -> Result<()> {
    let wait = until_some("the run to wait", async || {
        let (cell, namespace_id) = (world.engine.cell(), world.namespace_id);
        Ok(
            waits::list_of_run(cell.of(run), namespace_id, run, false, None, 1)
                .await?
                .items
                .pop(),
        )
    })
    .await?;
    let payload = json!(null);
    let completed = world
        .engine
        .complete_wait(world.namespace_id, wait.id, payload, "test");
    completed.await?;
    Ok(())
}

#[tokio::test]
async fn a_run_stays_on_its_release_over_promotion_and_rollback() -> Result<()> {
    let world = World::start().await?;
    world.publish(&release("one")).await?;
    let early = world.deliver(r#"{"id":"early"}"#).await?.run;
    world.publish(&release("two")).await?;
    let middle = world.deliver(r#"{"id":"middle"}"#).await?.run;
    let flow = "story".parse()?;
    let rolled_back = world
        .engine
        .promote_flow(world.namespace_id, &flow, 1, "test");
    rolled_back.await?;
    let late = world.deliver(r#"{"id":"late"}"#).await?.run;

    let expected = [(early, "one"), (middle, "two"), (late, "one")];
    for (run, _) in expected {
        let_go(&world, run).await?;
    }

    for (run, release) in expected {
        let end = world.engine.await_end(run, patience()).await?;
        let end = end.context("a run")?;
        assert_eq!(end.state, RunState::Succeeded, "{end:?}");
        let result: serde_json::Value = serde_json::from_str(&end.result.unwrap_or_default())?;
        assert_eq!(result, json!([release, release]));
    }
    assert_eq!(world.peer.count("/plain/one").await?.effects, 2);
    assert_eq!(world.peer.count("/plain/two").await?.effects, 1);
    Ok(())
}
