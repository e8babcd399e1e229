//! The pulse: cached checks of the database, so that requests need not query it.
//!
//! One task checks every second whether the database answers, and every few seconds counts what
//! only the database can count. Health and metrics are answered from its last results, so that a
//! storm of such requests costs the database nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use semel_store::outbox::OutboxDepth;
use semel_store::queue::Depth;
use semel_store::{Cell, ReadError, attention, flows, outbox, queue};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// How often the database is checked.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Every how many checks there is a count.
const COUNT_EVERY: u32 = 5;

/// How long the database may take to answer a check.
const LOOK_PATIENCE: Duration = Duration::from_secs(1);

/// How long the database may take to count.
const COUNT_PATIENCE: Duration = Duration::from_secs(3);

/// What only the database can count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    /// Runs held and due.
    pub(crate) depth: Depth,
    /// Effects in doubt.
    pub(crate) doubts: i64,
    /// Events that are not dispatched.
    pub(crate) outbox: OutboxDepth,
}

/// The last results.
#[derive(Default)]
pub(crate) struct Pulse {
    database: AtomicBool,
    counted: Mutex<Option<Counted>>,
}

impl Pulse {
    /// Whether the database answered the last check.
    pub(crate) fn database_answers(&self) -> bool {
        self.database.load(Ordering::Acquire)
    }

    /// What was counted last; nothing while the database does not answer.
    pub(crate) fn counted(&self) -> Option<Counted> {
        let counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.filter(|_| self.database_answers())
    }

    /// Checks the database, and counts.
    pub(crate) async fn look(&self, cell: &Cell, counts: bool) {
        let there = timeout(LOOK_PATIENCE, flows::version(cell.home())).await;
        let there = matches!(there, Ok(Ok(_)));
        self.database.store(there, Ordering::Release);
        if !there || !counts {
            return;
        }
        let found = timeout(COUNT_PATIENCE, count(cell)).await;
        let found = found.ok().and_then(Result::ok);
        *self.counted.lock().unwrap_or_else(PoisonError::into_inner) = found;
    }

    /// Checks at intervals until the server shuts down.
    pub(crate) async fn keep_looking(&self, cell: &Cell, shutdown: &CancellationToken) {
        let mut looks: u32 = 0;
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            looks = looks.wrapping_add(1);
            self.look(cell, looks.is_multiple_of(COUNT_EVERY)).await;
        }
    }
}

async fn count(cell: &Cell) -> Result<Counted, ReadError> {
    Ok(Counted {
        depth: queue::depth(cell.every()).await?,
        doubts: attention::count_doubts(cell.every()).await?,
        outbox: outbox::depth(cell.every()).await?,
    })
}
