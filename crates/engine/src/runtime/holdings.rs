//! Holdings: what this process carries, and the reconciliation of the queue with it.
//!
//! The queue says which runs a session holds, the process knows which it carries. The two differ
//! whenever the answer to a statement is lost: a take that committed and was never read, an accept
//! that timed out, a load that failed after its take. The process does not know of such runs, so
//! they are found by comparison: after each renewal, after each take that failed and every few
//! seconds, runs that the session holds and the process does not carry return to the queue.
//!
//! Why no run is returned that is carried, or is about to be:
//!
//! - Code that knows a run or its claim beforehand enters it here *before* it sends the statement
//!   that may make the session hold it: accepts by their claim, single takes by their run. A turn
//!   enters its run when it begins, while that first entry still exists.
//! - A batch of takes learns its runs from the answer. It keeps the lock `taking` from before the
//!   statement until every run is entered, and reconciliation keeps it from before it looks until it
//!   has judged.
//! - Reconciliation reads the queue first and the entries afterwards. A run that it found held and
//!   does not find entered is therefore not carried, and no turn will begin to carry it under the
//!   epoch that was read. The return names that epoch, so it may even be late.
//!
//! A statement that was cut off may still commit later. It is found by the next comparison.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_model::{ClaimId, RunId, SessionId};
use semel_store::queue::HeldRun;
use tokio::sync::Notify;

use crate::boottime::Boottime;

/// For how long after the last entry or failed take the queue is compared every few seconds. A statement that
/// was cut off commits within this time, or not at all.
const STIRRED_FOR: Duration = Duration::from_secs(60);

/// What this process carries or may be about to carry, by session.
#[derive(Default)]
pub(crate) struct Holdings {
    entries: Mutex<HashMap<(SessionId, Subject), usize>>,
    /// Locked while a batch of takes is in progress, and while the queue is compared.
    taking: tokio::sync::Mutex<()>,
    pub(crate) asked: Notify,
    /// When a run or claim was entered last, or a take failed; zero where that never happened.
    stirred_at: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Subject {
    Run(RunId),
    Claim(ClaimId),
}

impl Holdings {
    /// Enters a run that this process carries, or asks for by its name.
    pub(crate) fn carry(self: &Arc<Self>, session: SessionId, run: RunId) -> Holding {
        self.enter(session, Subject::Run(run))
    }

    /// Enters a claim whose run may come to be held when it is accepted.
    pub(crate) fn expect(self: &Arc<Self>, session: SessionId, claim: ClaimId) -> Holding {
        self.enter(session, Subject::Claim(claim))
    }

    /// Asks for a comparison soon.
    pub(crate) fn ask(&self) {
        self.asked.notify_one();
    }

    /// Asks for a comparison soon, and for further ones: what failed may commit later.
    pub(crate) fn ask_after_failure(&self) {
        self.stir();
        self.ask();
    }

    /// Whether the session may have come to hold a run lately. If not, a comparison finds nothing.
    pub(crate) fn is_stirred(&self) -> bool {
        let at = self.stirred_at.load(Ordering::Relaxed);
        let since = Boottime::now().as_millis().saturating_sub(at);
        at > 0 && u128::from(since) < STIRRED_FOR.as_millis()
    }

    fn stir(&self) {
        let now = Boottime::now().as_millis();
        self.stirred_at.store(now, Ordering::Relaxed);
    }

    /// Keeps comparisons away until the runs of a batch of takes are entered.
    pub(crate) async fn taking(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.taking.lock().await
    }

    fn enter(self: &Arc<Self>, session: SessionId, subject: Subject) -> Holding {
        *self.lock().entry((session, subject)).or_default() += 1;
        self.stir();
        Holding {
            holdings: self.clone(),
            session,
            subject,
        }
    }

    fn leave(&self, session: SessionId, subject: Subject) {
        if let Entry::Occupied(mut entry) = self.lock().entry((session, subject)) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }

    pub(crate) fn list_runs(&self, session: SessionId) -> Vec<RunId> {
        let entries = self.lock();
        let of_session = entries.keys().filter(|(of, _)| *of == session);
        of_session
            .filter_map(|(_, subject)| match subject {
                Subject::Run(run) => Some(*run),
                Subject::Claim(_) => None,
            })
            .collect()
    }

    pub(crate) fn has(&self, session: SessionId, held: &HeldRun) -> bool {
        let entries = self.lock();
        entries.contains_key(&(session, Subject::Run(held.run)))
            || entries.contains_key(&(session, Subject::Claim(held.claim)))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(SessionId, Subject), usize>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An entry, until it is dropped.
pub(crate) struct Holding {
    holdings: Arc<Holdings>,
    session: SessionId,
    subject: Subject,
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.holdings.leave(self.session, self.subject);
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn held(number: u128) -> HeldRun {
        let claim = ClaimId::from_uuid(Uuid::from_u128(number));
        HeldRun {
            run: RunId::derive(claim, 3),
            epoch: 1,
            claim,
        }
    }

    #[test]
    fn a_run_is_entered_by_its_claim_until_its_turn_begins() {
        let holdings = Arc::new(Holdings::default());
        let (session, other) = (SessionId::generate(), SessionId::generate());
        let held = held(1);

        let expected = holdings.expect(session, held.claim);
        assert!(holdings.has(session, &held));
        assert!(!holdings.has(other, &held), "of another session");
        let turn = holdings.carry(session, held.run);
        drop(expected);
        assert!(holdings.has(session, &held));
        assert_eq!(holdings.list_runs(session), [held.run]);

        drop(turn);
        assert!(!holdings.has(session, &held));
        assert!(holdings.lock().is_empty());
    }

    #[test]
    fn an_entry_stands_until_the_last_of_its_holders_is_gone() {
        let holdings = Arc::new(Holdings::default());
        let session = SessionId::generate();
        let held = held(2);

        let (first, second) = (
            holdings.carry(session, held.run),
            holdings.carry(session, held.run),
        );
        drop(first);
        assert!(holdings.has(session, &held));
        drop(second);
        assert!(!holdings.has(session, &held));
    }
}
