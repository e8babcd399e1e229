//! Which refusals are recorded: a storm of them costs a few rows a minute.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};

/// How many refusals of a flow are recorded within [`WINDOW`]: a storm of invalid deliveries costs
/// a few rows. All are counted.
const REFUSALS_MAX: u32 = 60;

/// How many of those of which nothing was read are recorded within [`WINDOW`].
const UNREAD_MAX: u32 = 1;

/// See [`REFUSALS_MAX`].
const WINDOW: SignedDuration = SignedDuration::from_secs(60);

/// How many flows are tracked; beyond that the oldest windows are dropped.
const FLOWS_MAX: usize = 10_000;

/// How many refusals were recorded lately, by flow.
#[derive(Default)]
pub(crate) struct RefusalLog {
    flows: Mutex<Windows>,
    /// Those of which nothing was read: whoever knows the address of a hook can send them, so they have
    /// a few rows of their own and take none from senders that were verified.
    unread: Mutex<Windows>,
}

/// When a window began, and how many refusals there were in it, by namespace and flow.
type Windows = HashMap<(i32, String), (Timestamp, u32)>;

impl RefusalLog {
    /// Whether one more is recorded.
    pub(crate) fn admits(&self, namespace_id: i32, flow: &str, now: Timestamp) -> bool {
        count(&self.flows, namespace_id, flow, now) <= REFUSALS_MAX
    }

    /// The same of a delivery of which nothing was read.
    pub(crate) fn admits_unread(&self, namespace_id: i32, flow: &str, now: Timestamp) -> bool {
        count(&self.unread, namespace_id, flow, now) <= UNREAD_MAX
    }
}

/// Counts one more, and says how many there were in this window.
fn count(windows: &Mutex<Windows>, namespace_id: i32, flow: &str, now: Timestamp) -> u32 {
    let mut flows = windows.lock().unwrap_or_else(PoisonError::into_inner);
    if flows.len() >= FLOWS_MAX {
        flows.retain(|_, (since, _)| now.duration_since(*since) < WINDOW);
    }
    let entry = flows.entry((namespace_id, flow.to_owned()));
    let (since, count) = entry.or_insert((now, 0));
    if now.duration_since(*since) >= WINDOW {
        (*since, *count) = (now, 0);
    }
    *count = count.saturating_add(1);
    *count
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

    #[test]
    fn what_was_not_read_takes_no_row_from_what_was() {
        let log = RefusalLog::default();
        let at = |secs: i64| Timestamp::from_second(secs).unwrap();

        let unread = (0..1_000).filter(|_| log.admits_unread(1, "orders", at(0)));
        assert_eq!(unread.count(), 1);
        assert!(log.admits_unread(1, "others", at(0)));
        let read = (0..1_000).filter(|_| log.admits(1, "orders", at(0)));
        assert_eq!(read.count(), 60);
        assert!(log.admits_unread(1, "orders", at(60)));
    }
}
