//! What every story pays: `.ci/long suite` shows what this one costs.

use anyhow::Result;

use crate::world::World;

#[tokio::test]
async fn an_engine_starts_and_stops() -> Result<()> {
    let world = World::start().await?;

    world.engine.shutdown().await;

    Ok(())
}
