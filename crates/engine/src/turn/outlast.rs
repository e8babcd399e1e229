//! A known outcome outlasts the database's absence.
//!
//! What a destination answered is known to this process alone until it is recorded. A write that
//! carries an outcome is therefore submitted again for as long as the database is away, while the
//! turn keeps its run and its place among the runs in hand: that is what bounds the memory. Whoever
//! has lost the lease meanwhile hands the answer in as evidence, as often as it takes. Only a
//! process that must stop gives up; it leaves the answer on disk, where it may ([`crate::spill`]).

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use semel_model::event::Event;
use semel_store::journal::{Transition, Written};
use semel_store::late_responses::{self, Late};
use semel_store::writer::WriteError;

use super::Turn;
use crate::spill::{self, Unrecorded};

/// The first and the longest pause before an answer is handed in again.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

impl Turn {
    /// Writes a transition; one that carries an outcome, however long that takes.
    pub(super) async fn submit(&self, transition: Arc<Transition>) -> Result<Written, WriteError> {
        if !carries_outcome(&transition) {
            return self.runtime.writers.record.write(transition).await;
        }
        loop {
            // The writer itself rests between its tries, and stops trying when the process gives up.
            match self.runtime.writers.record.write(transition.clone()).await {
                Err(WriteError::Unavailable(reason))
                    if !self.runtime.shutdown.giving_up.is_cancelled() =>
                {
                    tracing::warn!(run.id = %self.run, key = %self.key, reason,
                        "an outcome waits for the database to come back");
                }
                done => return done,
            }
        }
    }

    /// Hands in the answer that is known here and nowhere else, however long that takes.
    pub(super) async fn hand_in_evidence(&mut self) {
        let Some(late) = self.unrecorded.take() else {
            return;
        };
        let mut giving_up = pin!(self.runtime.shutdown.giving_up.cancelled());
        let mut pause = PAUSE.0;
        loop {
            let handing = late_responses::hand_in(&self.runtime.cell, self.run, self.epoch, &late);
            let handed = tokio::select! {
                handed = handing => handed,
                () = &mut giving_up => return self.leave_on_disk(&late),
            };
            match handed {
                Ok(()) => return self.runtime.signals.wake.notify_one(),
                // It would be refused again: an operator has to look at it.
                Err(error) if error.refusal().is_some() => {
                    tracing::error!(run.id = %self.run, effect.id = %late.effect, %error,
                        "the database refuses a late answer: its effect stays in doubt");
                    return self.leave_on_disk(&late);
                }
                Err(error) => tracing::debug!(run.id = %self.run, effect.id = %late.effect, %error,
                    "a late answer could not be handed in yet"),
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(PAUSE.1),
                () = &mut giving_up => return self.leave_on_disk(&late),
            }
        }
    }

    /// The process stops, and the database is away.
    fn leave_on_disk(&self, late: &Late) {
        let options = &self.runtime.options;
        let Some(folder) = &options.state_dir else {
            tracing::error!(run.id = %self.run, effect.id = %late.effect,
                "an effect that happened stays in doubt: the database is away, and there is no `serve.state_dir` to keep its answer in");
            return;
        };
        let answer = Unrecorded::new(self.run, self.epoch, late);
        match spill::leave(folder, &options.masters, &answer) {
            Ok(()) => tracing::warn!(run.id = %self.run, effect.id = %late.effect,
                folder = %folder.display(),
                "the database is away: the answer of an effect is kept on disk until the next start"),
            Err(error) => tracing::error!(run.id = %self.run, effect.id = %late.effect, %error,
                folder = %folder.display(),
                "an effect that happened stays in doubt: its answer could not be kept on disk"),
        }
    }
}

/// Whether it says how an attempt ended that left this process.
fn carries_outcome(transition: &Transition) -> bool {
    let is_outcome = |event: &Event| matches!(event, Event::Done { .. } | Event::Failed { .. });
    transition.events.iter().any(is_outcome)
}
