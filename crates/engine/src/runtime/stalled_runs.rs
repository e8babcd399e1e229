//! Runs without progress: one that may crash the process is held alone, and each that cannot be
//! read is logged once.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use semel_model::RunId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many runs are remembered as logged.
const LOGGED_MAX: usize = 10_000;

/// What a process knows of runs without progress.
pub(crate) struct StalledRuns {
    /// One run that was taken before without progress is held at a time.
    alone: Arc<Semaphore>,
    logged: Mutex<HashSet<RunId>>,
}

impl Default for StalledRuns {
    fn default() -> Self {
        Self {
            alone: Arc::new(Semaphore::new(1)),
            logged: Mutex::default(),
        }
    }
}

impl StalledRuns {
    /// The right to hold a run that was taken before without progress; nothing where one is held.
    pub(crate) fn alone(&self) -> Option<OwnedSemaphorePermit> {
        self.alone.clone().try_acquire_owned().ok()
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
