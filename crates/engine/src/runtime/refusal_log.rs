//! Which refusals are recorded: a storm of them costs a few rows a minute.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};

/// How many refusals of a flow are recorded within [`WINDOW`]: a storm of invalid deliveries costs
/// a few rows. All are counted.
const REFUSALS_MAX: u32 = 60;

/// See [`REFUSALS_MAX`].
const WINDOW: SignedDuration = SignedDuration::from_secs(60);

/// How many flows are tracked; beyond that the oldest windows are dropped.
const FLOWS_MAX: usize = 10_000;

/// How many refusals were recorded lately, by flow.
#[derive(Default)]
pub(crate) struct RefusalLog {
    flows: Mutex<HashMap<(i32, String), (Timestamp, u32)>>,
}

impl RefusalLog {
    /// Whether one more is recorded.
    pub(crate) fn admits(&self, namespace_id: i32, flow: &str, now: Timestamp) -> bool {
        let mut flows = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
        if flows.len() >= FLOWS_MAX {
            flows.retain(|_, (since, _)| now.duration_since(*since) < WINDOW);
        }
        let entry = flows.entry((namespace_id, flow.to_owned()));
        let (since, count) = entry.or_insert((now, 0));
        if now.duration_since(*since) >= WINDOW {
            (*since, *count) = (now, 0);
        }
        *count = count.saturating_add(1);
        *count <= REFUSALS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_of_refusals_costs_a_few_rows_a_minute() {
        let log = RefusalLog::default();
        let at = |secs: i64| Timestamp::from_second(secs).unwrap();

        let first = (0..1_000).filter(|_| log.admits(1, "orders", at(0)));
        assert_eq!(first.count(), 60);
        assert!(log.admits(1, "others", at(0)));
        assert!(!log.admits(1, "orders", at(59)));
        assert!(log.admits(1, "orders", at(60)));
    }
}
