//! Sessions: a lease that ended stays ended.

use std::time::Duration;

use anyhow::Result;
use semel_model::{SessionId, Span};
use semel_store::{clock, sessions};

use crate::world::World;

#[tokio::test]
async fn a_session_is_renewed_in_time_and_never_once_it_has_expired() -> Result<()> {
    let world = World::start().await?;
    let (session, lease) = (SessionId::generate(), Span::from_secs(3_000));
    sessions::open(&world.cell, session, "test", lease).await?;

    clock::move_ahead(&world.cell, Duration::from_secs(2_000)).await?;
    let in_time = sessions::renew(&world.cell, session, lease).await?;
    clock::move_ahead(&world.cell, Duration::from_secs(2_000)).await?;
    let again = sessions::renew(&world.cell, session, lease).await?;
    clock::move_ahead(&world.cell, Duration::from_secs(3_001)).await?;
    let too_late = sessions::renew(&world.cell, session, lease).await?;

    assert!(in_time.is_some() && again.is_some());
    assert_eq!(too_late, None, "its runs may be another's");
    Ok(())
}
