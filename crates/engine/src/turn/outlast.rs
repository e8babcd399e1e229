//! A known outcome outlasts an outage of the database.
//!
//! Until it is recorded, only this process knows a destination's response. A write that carries an
//! outcome is therefore retried for as long as the database is unavailable, while the turn keeps
//! its run and its place among the runs of this process: that bounds the memory. A worker that has
//! lost the lease meanwhile records the response as a late response, and retries until that
//! succeeds. Only a process that must stop ends the retries; it writes the response to disk, where
//! it may ([`crate::spill`]).

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use semel_model::event::Event;
use semel_store::journal::{Transition, TransitionResult};
use semel_store::late_responses::{self, LateResponse};
use semel_store::writer::WriteError;

use super::Turn;
use crate::spill::{self, Unrecorded};

/// The first and the longest pause before a late response is sent to the database again.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

impl Turn {
    /// Writes a transition; one that carries an outcome, however long that takes.
    pub(super) async fn submit(
        &self,
        transition: Arc<Transition>,
    ) -> Result<TransitionResult, WriteError> {
        if !carries_outcome(&transition) {
            return self.runtime.writers.record.write(transition).await;
        }
        loop {
            // The writer itself rests between its tries, and stops trying when the process must
            // stop.
            match self.runtime.writers.record.write(transition.clone()).await {
                Err(WriteError::Unavailable(reason))
                    if !self.runtime.shutdown.giving_up.is_cancelled() =>
                {
                    tracing::warn!(run.id = %self.run, reason,
                        "the database is unavailable; retrying the write of an outcome");
                }
                done => return done,
            }
        }
    }

    /// Records the response that only this process knows as a late response, however long that
    /// takes.
    pub(super) async fn record_late_responses(&mut self) {
        let Some(late) = self.unrecorded.take() else {
            return;
        };
        let mut giving_up = pin!(self.runtime.shutdown.giving_up.cancelled());
        let mut pause = PAUSE.0;
        loop {
            let handing =
                late_responses::record_late_response(self.cell(), self.run, self.epoch, &late);
            let handed = tokio::select! {
                handed = handing => handed,
                () = &mut giving_up => return self.leave_on_disk(&late),
            };
            match handed {
                Ok(()) => return self.runtime.signals.wake.notify_one(),
                // It would be refused again: an operator has to look at it.
                Err(error) if error.refusal().is_some() => {
                    tracing::error!(run.id = %self.run, effect.id = %late.effect, %error,
                        "the database refuses a late response: its effect stays in doubt");
                    return self.leave_on_disk(&late);
                }
                Err(error) => tracing::debug!(run.id = %self.run, effect.id = %late.effect, %error,
                    "failed to record a late response; retrying"),
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(PAUSE.1),
                () = &mut giving_up => return self.leave_on_disk(&late),
            }
        }
    }

    /// The process stops, and the database is unavailable.
    fn leave_on_disk(&self, late: &LateResponse) {
        let options = &self.runtime.options;
        let Some(folder) = &options.state_dir else {
            tracing::error!(run.id = %self.run, effect.id = %late.effect,
                "an effect that happened stays in doubt: the database is unavailable, and there is no `serve.state_dir` to store its response in");
            return;
        };
        let answer = Unrecorded::new(self.run, self.epoch, late);
        match spill::leave(folder, &options.masters, &answer) {
            Ok(()) => tracing::warn!(run.id = %self.run, effect.id = %late.effect,
                folder = %folder.display(),
                "the database is unavailable: the response to an effect is stored on disk until the next start"),
            Err(error) => tracing::error!(run.id = %self.run, effect.id = %late.effect, %error,
                folder = %folder.display(),
                "an effect that happened stays in doubt: its response could not be stored on disk"),
        }
    }
}

/// Whether it carries the outcome of an attempt that this process made.
fn carries_outcome(transition: &Transition) -> bool {
    let is_outcome = |event: &Event| matches!(event, Event::Done { .. } | Event::Failed { .. });
    transition.events.iter().any(is_outcome)
}
