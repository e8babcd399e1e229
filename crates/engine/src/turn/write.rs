//! How a turn writes the journal: everything that happened since the last write, in one commit.

use std::sync::Arc;

use semel_model::event::Event;
use semel_model::request::StepRequest;
use semel_model::run::RunState;
use semel_store::journal::{LeaseChange, RecordChange, TransitionResult};
use semel_store::queue;
use semel_store::runs::RunSnapshot;
use semel_store::tallies::TallyKind;
use semel_store::writer::WriteError;

use super::{Turn, TurnError, pending_write, unsure};
use crate::event;
use crate::state::Current;

impl Turn {
    /// An effect's outcome is written before anything slow is built on it.
    pub(super) async fn commit_what_matters(&mut self) -> Result<(), TurnError> {
        if self.pending.must_be_written() {
            self.commit(LeaseChange::Keep).await
        } else {
            Ok(())
        }
    }

    /// Writes what happened since the last write.
    pub(crate) async fn commit(&mut self, lease: LeaseChange) -> Result<(), TurnError> {
        if self.pending.is_empty() {
            return self.commit_nothing(lease).await;
        }
        let (before, after) = self.pending.fault_points();
        let at = self.rehearsed_step();
        let unchanged = self.pending.take_before_changes();
        let mut transition = self.pending.take(self.identity(), lease.clone());
        self.lengthen_memories(&mut transition.kept_generations);
        let end = transition.record.clone();
        let progresses = transition.progresses;
        let emits = !transition.emitted.is_empty();
        let opens = !transition.tasks.is_empty();
        let told = transition.notices.iter().map(|it| it.name).collect();
        self.reach_at(before, at.as_deref()).await;
        let transition = Arc::new(transition);
        let written = self.submit(transition.clone()).await;
        self.reach_at(after, at.as_deref()).await;
        match written {
            Ok(TransitionResult::Committed { cancel, made }) => {
                self.runtime.metrics.transitions.add_one();
                self.count_outcomes(transition.events.iter().chain(made.as_ref()));
                self.seq += 1;
                self.cancel |= cancel;
                self.unrecorded = None;
                self.sent = None;
                self.progressed(progresses);
                if emits {
                    self.runtime.signals.emitted.notify_one();
                }
                if opens {
                    self.wake_a_claim();
                }
                self.learn(made)?;
                self.after_commit(&lease, end);
                if lease == LeaseChange::End {
                    self.tell_gates();
                }
                self.tell_names(told);
                Ok(())
            }
            Ok(TransitionResult::PausesChanged) => {
                self.write_without_intent(&transition, unchanged).await
            }
            Ok(TransitionResult::Fenced) => Err(TurnError::Fenced),
            // Returned to the queue, so that the next turn finds the callback.
            Ok(TransitionResult::Overtaken) => {
                self.overtaken = true;
                Err(TurnError::Unsure("a callback came first".to_owned()))
            }
            Err(error) => Err(unwritten(error)),
        }
    }

    /// Writes what happened since the last write, without the intent that was decided last.
    pub(super) async fn commit_without_intent(
        &mut self,
        lease: LeaseChange,
    ) -> Result<(), TurnError> {
        if self.pending.has_intent() {
            let decided = self.pending.take(self.identity(), LeaseChange::Keep);
            self.pending.restore(&decided);
        }
        self.commit(lease).await
    }

    /// A claim that waits may have the task that this run opened, or opened again.
    fn wake_a_claim(&self) {
        let Current::Effect(pending) = &self.state.current else {
            return;
        };
        if let StepRequest::Task(request) = &pending.request {
            let namespace_id = self.release.namespace_id;
            let waiting = &self.runtime.signals.waiting_claims;
            waiting.wake_one(namespace_id, &request.queue);
        }
    }

    /// Takes in the event that a write made itself.
    fn learn(&mut self, made: Option<Event>) -> Result<(), TurnError> {
        match (self.pending.take_expectation(), made) {
            (true, Some(event)) => {
                let (now, flow) = (self.runtime.clock.now(), &self.release.flow);
                let applied = event::apply(&mut self.state, &event, flow, now);
                // The row is written: a worker that folds the journal finds the same.
                applied.map_err(|misfit| TurnError::Inconsistent(misfit.at(self.seq)))
            }
            // The write took effect before its answer was lost: only the journal knows the result.
            (true, None) => Err(TurnError::Unsure(
                "the result of a write must be read back".to_owned(),
            )),
            (false, _) => Ok(()),
        }
    }

    fn after_commit(&mut self, lease: &LeaseChange, end: Option<RecordChange>) {
        match lease {
            LeaseChange::Keep => return,
            LeaseChange::Return {
                due_at: Some(due_at),
                ..
            } => self.runtime.expect_due(*due_at),
            LeaseChange::Return { due_at: None, .. } => {}
            LeaseChange::End => {
                let metrics = &self.runtime.metrics;
                let (counter, what) = match end.as_ref().map(|record| record.state) {
                    Some(RunState::Succeeded) => (&metrics.runs_succeeded, TallyKind::Succeeded),
                    Some(RunState::Cancelled) => (&metrics.runs_cancelled, TallyKind::Cancelled),
                    Some(RunState::Superseded) => (&metrics.runs_superseded, TallyKind::Superseded),
                    _ => (&metrics.runs_failed, TallyKind::Failed),
                };
                counter.add_one();
                // Items and branches are parts of a run that is counted itself.
                if self.state.child_of.is_none() {
                    self.tally(what, 1);
                }
            }
        }
        self.lease_over = true;
        if let (LeaseChange::End, Some(child)) = (lease, &self.state.child_of) {
            self.runtime.local.children.tell(child.parent);
        }
        if let Some(record) = end {
            self.carried.tell(RunSnapshot {
                run: self.run,
                state: record.state,
                result: record.result,
                fault: record.fault,
            });
        }
    }

    /// The run was taken for nothing: it sleeps again, and the journal stays as it is.
    async fn commit_nothing(&mut self, lease: LeaseChange) -> Result<(), TurnError> {
        let LeaseChange::Return { due_at, stage } = lease else {
            return Ok(());
        };
        let session = self.session.id;
        let rest = (due_at, stage);
        let (cell, run) = (self.cell(), self.run);
        self.reach("sleep.before").await;
        match queue::sleep_on(cell, run, self.epoch, session, rest, self.cancel).await {
            Ok(true) => {
                self.lease_over = true;
                Ok(())
            }
            Ok(false) => Err(TurnError::Fenced),
            Err(error) => Err(unsure(error)),
        }
    }

    pub(super) async fn handle_error(&mut self, stop: TurnError) {
        match stop {
            TurnError::Fenced => {
                self.runtime.metrics.fenced.add_one();
                self.lease_over = true;
                tracing::warn!(run.id = %self.run, "lost the lease of a run");
                self.record_late_responses().await;
                self.leave_what_is_over().await;
            }
            TurnError::Unsure(reason) => {
                tracing::info!(run.id = %self.run, reason, "returned a run to the queue");
                // Before the run is freed: the worker that takes it next finds the response.
                self.record_late_responses().await;
            }
            // The lease was returned with the last write, or is by the end of the turn.
            TurnError::PausesChanged => {}
            TurnError::Refused(words) => self.refused(&words).await,
            TurnError::Inconsistent(error) => self.inconsistent_event(&error).await,
        }
    }

    fn identity(&self) -> pending_write::Identity {
        pending_write::Identity {
            run: self.run,
            partition_date: self.partition_date,
            namespace_id: self.release.namespace_id,
            holder: self.session.id,
            epoch: self.epoch,
            seq: self.seq,
            saw_cancel: self.cancel,
            child_of: self.state.child_of.as_ref().map(|child| child.parent),
            tried: self.sent.is_some(),
            pause_version: self.pauses.version(),
        }
    }
}

/// Why a write did not happen, as the end of a turn.
pub(super) fn unwritten(error: WriteError) -> TurnError {
    match error {
        WriteError::Refused(words) => TurnError::Refused(words),
        WriteError::Unavailable(_) | WriteError::Stopped => TurnError::Unsure(error.to_string()),
    }
}
