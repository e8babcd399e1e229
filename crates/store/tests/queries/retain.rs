//! Forgetting: in time, and never too soon.

use std::time::Duration;

use anyhow::Result;
use semel_store::{claims, clock, retain};

use crate::world::{World, delivery};

#[tokio::test]
async fn a_key_is_forgotten_after_its_time_and_never_before_its_run_ended() -> Result<()> {
    let world = World::start().await?;
    let accept = claims::start_accepting(&world.cell);
    let met = accept.write(delivery("old", "{}", None)?).await?;
    let claim = delivery("old", "{}", None)?.claim;

    let (too_soon, _) = retain::forget_keys(&world.cell).await?;
    clock::move_ahead(&world.cell, Duration::from_secs(2 * 3600)).await?;
    let (while_running, _) = retain::forget_keys(&world.cell).await?;
    let kept = claims::find(&world.cell, claim).await?;
    world
        .cell
        .reader()
        .await?
        .execute(
            "UPDATE runs SET state = 'succeeded' WHERE id = $1",
            &[met.run.as_uuid()],
        )
        .await?;
    clock::move_ahead(&world.cell, Duration::from_secs(2 * 3600)).await?;
    let (after_its_end, _) = retain::forget_keys(&world.cell).await?;

    assert_eq!((too_soon, while_running, after_its_end), (0, 0, 1));
    assert!(kept.is_some(), "a live run keeps its key past its time");
    assert!(claims::find(&world.cell, claim).await?.is_none());
    Ok(())
}
