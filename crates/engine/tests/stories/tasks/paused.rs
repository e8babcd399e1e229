//! Tasks of runs whose flow is paused.

use std::time::Duration;

use anyhow::{Result, ensure};
use semel_model::Span;
use semel_model::run::RunState;
use semel_store::pauses::PauseKind;
use serde_json::json;

use super::hands::{answer, done, end, hold, take, world_with};

/// Its flow was paused meanwhile: the run moves its time when it wakes up, and its worker is not lost.
#[tokio::test]
async fn a_task_s_time_stands_still_while_its_flow_is_paused() -> Result<()> {
    let world = world_with("guard: key").await?;
    let run = world.deliver(r#"{"id":"1"}"#).await?.run;
    let task = take(&world).await?;
    let flow = (PauseKind::Flow, "story");
    world.engine.pause(world.by(), flow, "tests").await?;
    for _ in 0..5 {
        let lease = Some(Span::from_secs(3_600));
        let own = hold(&world, &task);
        let renewed = world.engine.renew_task(own, lease).await?;
        ensure!(
            Some(renewed.lease_until) > task.until,
            "no longer than that"
        );
        world.move_clock(Duration::from_secs(29 * 60)).await?;
    }
    world
        .engine
        .resume_paused(world.by(), flow, None, None)
        .await?;

    answer(&world, &task, done(json!("drawn"))).await?;

    let end = end(&world, run).await?;
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    Ok(())
}
