//! Requests that failed verification: counted by flow, recorded now and then.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};

/// How long after one such request of a flow the next is recorded: a storm costs a line a minute.
const WRITE_EVERY: SignedDuration = SignedDuration::from_secs(60);

/// How many there were, by namespace and flow.
#[derive(Default)]
pub(crate) struct AuthFailures {
    flows: Mutex<HashMap<(String, String), Seen>>,
}

#[derive(Default)]
struct Seen {
    count: u64,
    written_at: Option<Timestamp>,
}

impl AuthFailures {
    /// Counts one, and returns whether to record it.
    pub(crate) fn note(&self, namespace: &str, flow: &str, now: Timestamp) -> bool {
        let mut flows = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = flows
            .entry((namespace.to_owned(), flow.to_owned()))
            .or_default();
        seen.count += 1;
        let is_due = seen
            .written_at
            .is_none_or(|at| now.duration_since(at) >= WRITE_EVERY);
        if is_due {
            seen.written_at = Some(now);
        }
        is_due
    }

    /// The counts, by namespace and flow.
    pub(crate) fn list(&self) -> Vec<(String, String, u64)> {
        let flows = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
        let mut counts: Vec<_> = flows
            .iter()
            .map(|((namespace, flow), seen)| (namespace.clone(), flow.clone(), seen.count))
            .collect();
        counts.sort();
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_is_counted_whole_and_written_down_once_a_minute() {
        let failures = AuthFailures::default();
        let at = |secs: i64| Timestamp::from_second(secs).unwrap();

        let written = [0, 1, 59, 60, 61].map(|secs| failures.note("main", "orders", at(secs)));
        let other = failures.note("main", "others", at(61));

        assert_eq!(written, [true, false, false, true, false]);
        assert!(other);
        let count = |flow: &str, count| ("main".to_owned(), flow.to_owned(), count);
        assert_eq!(failures.list(), [count("orders", 5), count("others", 1)]);
    }
}
