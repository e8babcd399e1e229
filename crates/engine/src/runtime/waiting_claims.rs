//! Claims that wait for tasks, by namespace and queue.
//!
//! A task that opens wakes one claim of its own queue. Tasks that other servers opened are looked for
//! every half second, by one of the claims that wait for the queue: however many wait, the database is
//! asked as often as for one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// How often a queue that claims wait for is looked at for tasks that another server's runs opened.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The queues, with how many claims wait for each.
type Queues = HashMap<(i32, String), (Arc<WaitedQueue>, usize)>;

/// The queues that claims of this process wait for.
#[derive(Default)]
pub(crate) struct WaitingClaims {
    queues: Mutex<Queues>,
}

/// A queue that claims wait for.
pub(crate) struct WaitedQueue {
    /// A task was opened.
    pub(crate) opened: Notify,
    looked_at: Mutex<Instant>,
}

/// One claim that waits. Dropping it leaves.
pub(crate) struct WaitingClaim<'a> {
    all: &'a WaitingClaims,
    name: (i32, String),
    queue: Arc<WaitedQueue>,
}

impl WaitingClaims {
    /// Joins the claims that wait for a queue, which is looked at first by who joins.
    pub(crate) fn join(&self, namespace_id: i32, queue: &str) -> WaitingClaim<'_> {
        let name = (namespace_id, queue.to_owned());
        let mut queues = lock(&self.queues);
        let (waited, claims) = queues.entry(name.clone()).or_insert_with(|| {
            let waited = WaitedQueue {
                opened: Notify::new(),
                looked_at: Mutex::new(Instant::now()),
            };
            (Arc::new(waited), 0)
        });
        *claims += 1;
        WaitingClaim {
            all: self,
            name,
            queue: waited.clone(),
        }
    }

    /// Wakes one of the claims that wait for a queue.
    pub(crate) fn wake_one(&self, namespace_id: i32, queue: &str) {
        let name = (namespace_id, queue.to_owned());
        if let Some((waited, _)) = lock(&self.queues).get(&name) {
            waited.opened.notify_one();
        }
    }
}

impl WaitedQueue {
    /// When the queue is looked at again.
    pub(crate) fn next_look(&self) -> Instant {
        *lock(&self.looked_at) + LOOK_EVERY
    }

    /// Whether the caller is the one that looks now.
    pub(crate) fn take_look(&self, now: Instant) -> bool {
        let mut looked_at = lock(&self.looked_at);
        let is_due = now >= *looked_at + LOOK_EVERY;
        if is_due {
            *looked_at = now;
        }
        is_due
    }
}

impl std::ops::Deref for WaitingClaim<'_> {
    type Target = WaitedQueue;

    fn deref(&self) -> &WaitedQueue {
        &self.queue
    }
}

impl Drop for WaitingClaim<'_> {
    fn drop(&mut self) {
        let mut queues = lock(&self.all.queues);
        if let Some((_, claims)) = queues.get_mut(&self.name) {
            *claims -= 1;
            if *claims == 0 {
                queues.remove(&self.name);
            }
        }
    }
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn is_woken(claim: &WaitingClaim<'_>) -> bool {
        claim.opened.notified().now_or_never().is_some()
    }

    #[test]
    fn a_task_wakes_one_claim_of_its_namespace_and_queue() {
        let all = WaitingClaims::default();
        let (one, two) = (all.join(1, "images"), all.join(1, "images"));
        let (queue, namespace) = (all.join(1, "mails"), all.join(2, "images"));

        all.wake_one(1, "images");

        assert!(!is_woken(&queue) && !is_woken(&namespace));
        assert_eq!((is_woken(&one), is_woken(&two)), (true, false));
    }

    #[test]
    fn one_of_many_claims_looks_and_then_none_for_a_while() {
        let all = WaitingClaims::default();
        let waiting: Vec<_> = (0..64).map(|_| all.join(1, "images")).collect();
        let looks = |at| waiting.iter().filter(|claim| claim.take_look(at)).count();
        let (now, later) = (Instant::now(), Instant::now() + LOOK_EVERY);

        let (at_once, due, again) = (looks(now), looks(later), looks(later));

        assert_eq!((at_once, due, again), (0, 1, 0));
    }

    #[test]
    fn nothing_is_kept_of_a_queue_that_no_claim_waits_for() {
        let all = WaitingClaims::default();

        let (one, two) = (all.join(1, "images"), all.join(1, "images"));
        drop(one);
        let kept = lock(&all.queues).len();
        drop(two);

        assert_eq!((kept, lock(&all.queues).len()), (1, 0));
    }
}
