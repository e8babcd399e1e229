//! Quarantine of runs that make no progress, with the reason recorded.
//!
//! A write that the database refuses is a fact about the run. What was refused is dropped, and a
//! small transition takes its place that carries none of it. An attempt whose outcome was in it is
//! in doubt, and its destination's response is recorded as a late response: resuming the run uses
//! that response and sends nothing.

use semel_model::event::{DoubtPlan, Event};
use semel_model::run::StopReason;
use semel_model::{Doubt, Fault};
use semel_store::queue;

use super::pending_write::PendingWrite;
use super::{Turn, TurnError};
use crate::event::{self, Before};
use crate::state::FoldError;

/// How often a run may be taken without progress before it is quarantined.
pub(crate) const TAKES_MAX: i16 = 5;

/// How many rows the journal of a run may have before the run is quarantined: it is read whole
/// whenever the run is taken.
const JOURNAL_ROWS_MAX: i32 = 50_000;

/// From how many rows on an operator is warned.
const JOURNAL_ROWS_WARN: i32 = 10_000;

/// How much of the database's own message is kept.
const WORDS_CHARS_MAX: usize = 500;

impl Turn {
    /// Why the run does not continue, where it made no progress.
    pub(super) fn stuck(&self) -> Option<Fault> {
        if self.takes > TAKES_MAX {
            let message = format!("taken {} times without progress", self.takes);
            return Some(Fault::permanent("no-progress", message));
        }
        self.too_long()
    }

    /// Why the run does not continue, where its journal has grown too long. It may still be ended.
    pub(super) fn too_long(&self) -> Option<Fault> {
        let too_long = self.seq >= JOURNAL_ROWS_MAX && !self.cancel;
        too_long.then(|| {
            let message = format!("its journal has {} rows", self.seq);
            Fault::permanent("journal-too-long", message)
        })
    }

    /// Whether no operator has resumed the run since it was quarantined.
    pub(super) fn stays_quarantined(&self) -> bool {
        self.quarantined && self.state.stopped && !self.cancel
    }

    /// Notes that a write was committed.
    pub(super) fn progressed(&mut self, progresses: bool) {
        if progresses && self.suspect.take().is_some() {
            // The next one may be taken.
            self.runtime.signals.wake.notify_one();
        }
        if self.seq == JOURNAL_ROWS_WARN {
            tracing::warn!(run.id = %self.run, rows = self.seq,
                "the journal of a run grows long; at {JOURNAL_ROWS_MAX} rows Semel quarantines the run");
        }
    }

    /// The database refuses what the run wants to write: the run is quarantined without it.
    pub(super) async fn refused(&mut self, words: &str) {
        self.runtime.metrics.writes_refused.add_one();
        let words: String = words.chars().take(WORDS_CHARS_MAX).collect();
        self.quarantine_without(Fault::permanent("write-refused", words))
            .await;
    }

    /// An event does not fit the state of the run, which is a defect: the run is quarantined
    /// without it.
    pub(super) async fn inconsistent_event(&mut self, error: &FoldError) {
        self.runtime.metrics.journals_inconsistent.add_one();
        tracing::error!(run.id = %self.run, %error,
            "an event does not fit the state of its run");
        self.quarantine_without(inconsistent(error)).await;
    }

    /// Quarantines the run without what it wanted to write.
    async fn quarantine_without(&mut self, fault: Fault) {
        self.record_late_responses().await;
        self.pending = PendingWrite::default();
        // The state as the journal has it, without what was to follow: the attempt, and an active
        // run.
        self.state.ended = false;
        self.state.stopped = false;
        self.doubt_what_was_sent(&fault);
        match self.stop_run(StopReason::Quarantined, fault.clone()).await {
            Ok(()) => {}
            Err(TurnError::Fenced) => self.lease_over = true,
            // It has no intent, so that no pause refuses it.
            Err(TurnError::PausesChanged) => {}
            Err(TurnError::Unsure(reason)) => {
                tracing::warn!(run.id = %self.run, reason,
                    "failed to quarantine a run; its next take retries");
            }
            Err(TurnError::Refused(_) | TurnError::Inconsistent(_)) => {
                self.quarantine_bare(&fault).await
            }
        }
    }

    /// An attempt whose outcome cannot be recorded is in doubt. The state of the run may be beyond
    /// it already, so the event is not applied: the turn ends with this write.
    fn doubt_what_was_sent(&mut self, fault: &Fault) {
        let Some(sent) = self.sent.take() else {
            return;
        };
        let seen = "its outcome could not be recorded";
        let event = Event::Doubted {
            step: sent.step,
            doubt: Doubt::new(fault.code.clone(), seen),
            plan: DoubtPlan::Review,
        };
        let before = Before {
            effect: Some(sent.effect),
            stopped: false,
        };
        let changes = event::project(&before, &event, &self.state, &self.release.flow);
        self.pending.add(event, changes, Vec::new());
    }

    /// Quarantines the run by a statement that carries nothing but the fault.
    async fn quarantine_bare(&mut self, fault: &Fault) {
        let (cell, session) = (self.cell(), self.session.id);
        match queue::quarantine(cell, self.run, self.epoch, session, fault).await {
            Ok(_) => self.lease_over = true,
            Err(error) => tracing::error!(run.id = %self.run, %error,
                "failed to quarantine a run"),
        }
    }
}

/// Why a run is quarantined whose events do not follow on each other.
pub(crate) fn inconsistent(error: &FoldError) -> Fault {
    Fault::permanent("journal-inconsistent", error.to_string())
}
