//! Runs without progress: those that may crash the process are held in one group at a time, and each
//! that cannot be read is logged once.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use semel_model::RunId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many runs are remembered as logged.
const LOGGED_MAX: usize = 10_000;

/// What a process knows of runs without progress.
pub(crate) struct StalledRuns {
    /// One group of runs that were taken before without progress is held at a time.
    group: Arc<Semaphore>,
    logged: Mutex<HashSet<RunId>>,
}

impl Default for StalledRuns {
    fn default() -> Self {
        Self {
            group: Arc::new(Semaphore::new(1)),
            logged: Mutex::default(),
        }
    }
}

/// A group of runs that were taken before without progress. Its last run that makes progress, or is given
/// back, lets the next group be taken.
pub(crate) struct SuspectGroup {
    _right: OwnedSemaphorePermit,
}

impl SuspectGroup {
    pub(crate) fn new(right: OwnedSemaphorePermit) -> Self {
        Self { _right: right }
    }
}

impl StalledRuns {
    /// The right to hold a group of runs that were taken before without progress; nothing where one is
    /// held.
    pub(crate) fn right(&self) -> Option<OwnedSemaphorePermit> {
        self.group.clone().try_acquire_owned().ok()
    }

    /// Whether this is the first log line about a run.
    pub(crate) fn is_news(&self, run: RunId) -> bool {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.len() >= LOGGED_MAX {
            logged.clear();
        }
        logged.insert(run)
    }
}
