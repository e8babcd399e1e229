//! Completions: notifying the requests that wait for a run of its end.
//!
//! While this process carries a run, the run ends here and its waiters are notified here: they cost
//! the database nothing. The end of any other run is only in the database, which is polled.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use semel_model::RunId;
use semel_store::runs::RunSnapshot;
use tokio::sync::watch;

/// Carried runs and their waiters, by run.
#[derive(Default)]
pub(crate) struct Completions {
    entries: Mutex<HashMap<RunId, Entry>>,
}

struct Entry {
    carriers: usize,
    told: watch::Sender<Option<RunSnapshot>>,
}

impl Entry {
    fn is_idle(&self) -> bool {
        self.carriers == 0 && self.told.receiver_count() == 0
    }
}

impl Completions {
    /// Notes that this process carries a run, until the value is dropped or its waiters are
    /// notified.
    pub(crate) fn carry(self: &Arc<Self>, run: RunId) -> Carried {
        let mut entries = self.lock();
        let entry = entries.entry(run).or_insert_with(Entry::new);
        entry.carriers += 1;
        Carried {
            run,
            ends: self.clone(),
            lets_go: true,
        }
    }

    /// Waits at a run.
    pub(crate) fn watch(self: &Arc<Self>, run: RunId) -> Watch {
        let mut entries = self.lock();
        let entry = entries.entry(run).or_insert_with(Entry::new);
        Watch {
            run,
            ends: self.clone(),
            told: entry.told.subscribe(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn let_go(&self, run: RunId, snapshot: Option<RunSnapshot>) {
        let mut entries = self.lock();
        if let Some(entry) = entries.get_mut(&run) {
            entry.carriers = entry.carriers.saturating_sub(1);
            // Also without a final state: waiters must poll the database from now on.
            entry.told.send_replace(snapshot);
            if entry.is_idle() {
                entries.remove(&run);
            }
        }
    }
}

impl Entry {
    fn new() -> Self {
        Self {
            carriers: 0,
            told: watch::Sender::new(None),
        }
    }
}

/// A run that this process carries.
pub(crate) struct Carried {
    run: RunId,
    ends: Arc<Completions>,
    lets_go: bool,
}

impl Carried {
    /// Notifies the waiters of the run's state now that it is no longer carried.
    pub(crate) fn tell(&mut self, snapshot: RunSnapshot) {
        if std::mem::take(&mut self.lets_go) {
            self.ends.let_go(self.run, Some(snapshot));
        }
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        if self.lets_go {
            self.ends.let_go(self.run, None);
        }
    }
}

/// A request that waits for a run's end.
pub(crate) struct Watch {
    run: RunId,
    ends: Arc<Completions>,
    told: watch::Receiver<Option<RunSnapshot>>,
}

impl Watch {
    /// Whether this process carries the run, so that its end will be notified.
    pub(crate) fn is_carried(&self) -> bool {
        let entries = self.ends.lock();
        entries
            .get(&self.run)
            .is_some_and(|entry| entry.carriers > 0)
    }

    /// Waits for a notification; nothing when the run was released without an end.
    pub(crate) async fn told(&mut self) -> Option<RunSnapshot> {
        match self.told.changed().await {
            Ok(()) => self.told.borrow_and_update().clone(),
            Err(_) => None,
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut entries = self.ends.lock();
        // Our own receiver is still counted.
        if let Some(entry) = entries.get(&self.run)
            && entry.carriers == 0
            && entry.told.receiver_count() <= 1
        {
            entries.remove(&self.run);
        }
    }
}

#[cfg(test)]
mod tests {
    use semel_model::ClaimId;
    use semel_model::run::RunState;
    use uuid::Uuid;

    use super::*;

    fn run() -> RunId {
        RunId::derive(ClaimId::from_uuid(Uuid::from_u128(1)), 0)
    }

    fn snapshot(state: RunState) -> RunSnapshot {
        RunSnapshot {
            run: run(),
            state,
            result: None,
            fault: None,
        }
    }

    #[tokio::test]
    async fn waiters_are_notified_by_the_carrier() {
        let ends = Arc::new(Completions::default());
        let mut carried = ends.carry(run());
        let mut watch = ends.watch(run());
        assert!(watch.is_carried());

        carried.tell(snapshot(RunState::Succeeded));

        let told = watch.told().await;
        assert_eq!(
            told.map(|snapshot| snapshot.state),
            Some(RunState::Succeeded)
        );
        drop((watch, carried));
        assert!(ends.lock().is_empty());
    }

    #[tokio::test]
    async fn a_released_run_is_read_from_the_database_again() {
        let ends = Arc::new(Completions::default());
        let carried = ends.carry(run());
        let mut watch = ends.watch(run());

        drop(carried);

        assert!(watch.told().await.is_none());
        assert!(!watch.is_carried());
        drop(watch);
        assert!(ends.lock().is_empty());
    }

    #[test]
    fn an_end_that_was_notified_before_is_not_awaited() {
        let ends = Arc::new(Completions::default());
        let mut carried = ends.carry(run());
        carried.tell(snapshot(RunState::Failed));

        assert!(!ends.watch(run()).is_carried());
        drop(carried);
        assert!(ends.lock().is_empty());
    }
}
