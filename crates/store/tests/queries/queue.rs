//! The queue: no run is left in the hands of somebody who is gone.

use anyhow::Result;
use semel_model::{SessionId, Span};
use semel_store::claims::start_accepting;
use semel_store::{queue, retain, sessions};

use crate::world::{World, delivery};

#[tokio::test]
async fn a_run_that_was_accepted_for_a_session_that_is_gone_is_due_again() -> Result<()> {
    let world = World::start().await?;
    let (alive, gone) = (SessionId::generate(), SessionId::generate());
    sessions::open(&world.cell, alive, "test", Span::from_secs(60)).await?;
    let accepting = start_accepting(&world.cell);
    accepting
        .write(delivery("kept", "{}", Some(alive))?)
        .await?;
    accepting
        .write(delivery("stray", "{}", Some(gone))?)
        .await?;

    let before = queue::depth(&world.cell).await?;
    retain::sweep(&world.cell).await?;
    let after = queue::depth(&world.cell).await?;

    assert_eq!(before, (2, 0), "both are held, none is due");
    assert_eq!(after, (1, 1), "one is held, one is due");
    Ok(())
}
