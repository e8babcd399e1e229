//! What all requests to the peer share.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::world::World;

/// The one peer of this process.
#[derive(Debug)]
pub(super) struct Shared {
    world: Mutex<World>,
    /// Moves whenever a request begins to be held.
    pub(super) holding: watch::Sender<()>,
}

impl Shared {
    pub(super) fn new(world: World) -> Self {
        Self {
            world: Mutex::new(world),
            holding: watch::channel(()).0,
        }
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The connection is to be closed without an answer.
#[derive(Debug, thiserror::Error)]
#[error("closed as asked")]
pub(super) struct Closed;
