//! Runs that were taken twice without progress, and continue together while nothing crashes.

use anyhow::Result;
use semel_store::pauses::PauseKind;
use semel_testkit::patience;

use crate::pauses::{all_end, until_all_paused};
use crate::world::World;

const RUNS: usize = 6;

const READ: &str = "steps:\n  - id: ask\n    http: { get: 'PEER/hold/list/1' }\n";

#[tokio::test]
async fn runs_that_are_suspected_after_crashes_read_at_the_same_time() -> Result<()> {
    let world = World::start().await?;
    world.publish(READ).await?;
    let flow = (PauseKind::Flow, "story");
    world.engine.pause(world.by(), flow, "tests").await?;
    for number in 0..RUNS {
        world.deliver(&format!(r#"{{"id":"{number}"}}"#)).await?;
    }
    until_all_paused(&world).await?;
    // As two crashes leave them.
    let client = world.database().connect().await?;
    let stall = "UPDATE queue SET stalled_takes = 2";
    client.execute(stall, &[]).await?;

    world
        .engine
        .resume_paused(world.by(), flow, None, None)
        .await?;
    let held = world.peer.until_held(RUNS, patience()).await?;
    world.peer.let_go().await?;
    all_end(&world).await?;

    assert_eq!(held.len(), RUNS);
    Ok(())
}
