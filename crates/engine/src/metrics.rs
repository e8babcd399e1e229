//! Counters of what the engine did since the process started.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    pub fn add_one(&self) {
        self.add(1);
    }

    /// Adds some.
    pub fn add(&self, some: u64) {
        self.0.fetch_add(some, Ordering::Relaxed);
    }

    /// The number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Sets the number.
    pub fn set(&self, number: u64) {
        self.0.store(number, Ordering::Relaxed);
    }

    /// The number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Numbers that only grow, one for each name.
#[derive(Debug, Default)]
pub struct NamedCounters(Mutex<BTreeMap<&'static str, u64>>);

impl NamedCounters {
    /// Adds one to the number of a name.
    pub fn add_one(&self, name: &'static str) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(name).or_default() += 1;
    }

    /// The number of a name; 0 where it was never counted.
    pub fn get(&self, name: &str) -> u64 {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(name).copied().unwrap_or_default()
    }

    /// The names that were counted, each with its number.
    pub fn list(&self) -> Vec<(&'static str, u64)> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|(name, count)| (*name, *count)).collect()
    }
}

/// What the engine did since the process started.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Deliveries that made a run.
    pub accepted: Counter,
    /// Deliveries that were repeats.
    pub duplicates: Counter,
    /// Deliveries that brought a known key with another payload.
    pub mismatches: Counter,
    /// Signed bodies that came again under another key.
    pub replays: Counter,
    /// Deliveries refused because their key could not be computed or their input does not fit.
    pub refused: Counter,
    /// Deliveries refused because too many runs of their namespace wait.
    pub backlog_refused: Counter,
    /// Deliveries for which the trigger's `when` was false.
    pub ignored: Counter,
    /// Deliveries that were older than what was accepted of their object.
    pub stale: Counter,
    /// Callbacks that resumed a run.
    pub callbacks: Counter,
    /// Callbacks that came again.
    pub callback_repeats: Counter,
    /// Runs that were taken from the queue.
    pub taken: Counter,
    /// Runs that were returned because there was no place or memory for them, also where they had outgrown it.
    pub runs_put_back: Counter,
    /// Runs that began although there was no memory for them.
    pub runs_without_memory: Counter,
    /// Runs returned from dead sessions, or held by this session without a turn.
    pub recovered: Counter,
    /// Runs that slept although what they waited for was recorded, and were made due again.
    pub wakes_repaired: Counter,
    /// Writes that a lost lease refused.
    pub fenced: Counter,
    /// Writes whose values the database refused.
    pub writes_refused: Counter,
    /// Takes of runs that could not be read.
    pub runs_unreadable: Counter,
    /// Runs whose journal, or whose next event, does not fit their state.
    pub journals_inconsistent: Counter,
    /// Transitions that were committed.
    pub transitions: Counter,
    /// Runs that succeeded.
    pub runs_succeeded: Counter,
    /// Runs that failed.
    pub runs_failed: Counter,
    /// Runs that were cancelled.
    pub runs_cancelled: Counter,
    /// Runs that ended because another run of their object took their place.
    pub runs_superseded: Counter,
    /// Runs that stopped until an operator acts.
    pub runs_stopped: Counter,
    /// Effects that happened.
    pub effects_done: Counter,
    /// Attempts that are known not to have happened.
    pub effects_failed: Counter,
    /// Attempts that ended in doubt.
    pub effects_doubted: Counter,
    /// Effects that an earlier run of the key had performed: their results were reused.
    pub effects_reused: Counter,
    /// Keys that expired.
    pub keys_forgotten: Counter,
    /// Acts of the audit record that were removed as past their time.
    pub audit_removed: Counter,
    /// Runs that were deleted because they were past their history.
    pub runs_deleted: Counter,
    /// Runs that were archived before they were deleted.
    pub runs_archived: Counter,
    /// Files that could not be written to the archive or removed from it.
    pub archive_failures: Counter,
    /// Instants of schedules that have their run.
    pub ticks_fired: Counter,
    /// Instants of schedules that started nothing.
    pub ticks_skipped: Counter,
    /// Events that left the outbox: every flow, wait and subscription that takes them has them.
    pub events_dispatched: Counter,
    /// Tries of events that met something which could not be read: the event is kept.
    pub events_unread: Counter,
    /// Deliveries of events that a webhook took.
    pub deliveries_made: Counter,
    /// Deliveries of events that Semel stopped retrying.
    pub deliveries_failed: Counter,
    /// Effects of scripts that were begun.
    pub once_begun: Counter,
    /// Effects of scripts that were done before: nothing was performed.
    pub once_repeats: Counter,
    /// Scripts that were lost, each of which leaves a doubt.
    pub once_lapsed: Counter,
    /// Messages about alerts that their destination took.
    pub alerts_sent: Counter,
    /// Messages about alerts that failed or are in doubt.
    pub alerts_undelivered: Counter,
    /// Namespaces whose alerts do not arrive.
    pub alerts_failing: Gauge,
    /// Partitions of this month and the next that could not be made yet.
    pub partitions_missing: Gauge,
    /// Passes that were finished here, by service.
    pub service_passes: NamedCounters,
    /// Passes that failed, by service.
    pub service_failures: NamedCounters,
    /// Passes that panicked, by service. Each began the service anew.
    pub service_panics: NamedCounters,
}
