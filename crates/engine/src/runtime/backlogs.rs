//! Backlogs: which namespaces have as many runs waiting as they may.
//!
//! Counted at most once a second for each namespace that has a limit, and beside the deliveries: none
//! waits for a count, unless the last one is so old that it says nothing.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a count is taken as it is.
const FRESH_FOR: Duration = Duration::from_secs(1);

/// After how long a count says nothing.
const OLD_AFTER: Duration = Duration::from_secs(3);

/// What was counted, by namespace.
#[derive(Default)]
pub(crate) struct Backlogs {
    counted: Mutex<HashMap<i32, Counted>>,
}

#[derive(Clone, Copy)]
struct Counted {
    at: Instant,
    asked_at: Instant,
    is_full: bool,
}

/// What is known of a backlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backlog {
    /// Whether it is full, as counted a moment ago.
    Known(bool),
    /// As counted lately; the asker counts it anew, beside its work.
    Lately(bool),
    /// Nothing: it is to be counted first.
    Unknown,
}

impl Backlogs {
    /// What is known of the backlog of a namespace.
    pub(crate) fn look(&self, namespace_id: i32, now: Instant) -> Backlog {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = counted.get_mut(&namespace_id) else {
            return Backlog::Unknown;
        };
        if now.duration_since(known.at) >= OLD_AFTER {
            return Backlog::Unknown;
        }
        // One asker counts, and the others take what is known.
        if now.duration_since(known.asked_at) < FRESH_FOR {
            return Backlog::Known(known.is_full);
        }
        known.asked_at = now;
        Backlog::Lately(known.is_full)
    }

    /// Notes a count.
    pub(crate) fn note(&self, namespace_id: i32, is_full: bool, at: Instant) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let count = Counted {
            at,
            asked_at: at,
            is_full,
        };
        counted.insert(namespace_id, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_asker_a_second_counts_and_an_old_count_says_nothing() {
        let backlogs = Backlogs::default();
        let begun = Instant::now();
        let after = |millis| begun + Duration::from_millis(millis);

        assert_eq!(backlogs.look(1, begun), Backlog::Unknown);
        backlogs.note(1, true, begun);
        assert_eq!(backlogs.look(1, after(900)), Backlog::Known(true));
        assert_eq!(backlogs.look(1, after(1_100)), Backlog::Lately(true));
        let other = backlogs.look(1, after(1_200));
        assert_eq!(other, Backlog::Known(true), "another one counts");
        assert_eq!(backlogs.look(1, after(3_000)), Backlog::Unknown);
        assert_eq!(
            backlogs.look(2, begun),
            Backlog::Unknown,
            "another namespace"
        );
    }
}
