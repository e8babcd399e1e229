//! A turn: carrying one run forward, for as long as this process holds it.
//!
//! Decide, write, act, and again. What an act brought is kept in memory until the next write, which
//! also carries the next intent: the outcome of one effect and the intent of the next go down in
//! one commit. Commit points of an effect: the commit of its intent (before the first byte leaves)
//! and the commit of its outcome.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use jiff::civil::Date;
use semel_flow::{Flow, Step};
use semel_model::event::Event;
use semel_model::run::StopReason;
use semel_model::{EffectId, Fault, Key, RunId, WaitId};
use semel_steps::failpoint::failpoint;
use semel_store::journal::LeaseChange;
use semel_store::late_responses::LateResponse;
use semel_store::queue::ReturnCause;
use semel_store::runs::Stage;
use semel_store::tallies::TallyKind;
use semel_store::{ReadError, SlotCell};
use serde_json::Value;

use crate::catalogue::Release;
use crate::decide::{Decision, NextAction, decide};
use crate::event::{self, Before, RowChanges};
use crate::external_result::ExternalResult;
use crate::gates::Gate;
use crate::pauses::PauseSet;
use crate::rehearsal::CrashPoint;
use crate::runtime::Holding;
use crate::runtime::Runtime;
use crate::runtime::WorkerSession;
use crate::runtime::{Carried, Place, SuspectGroup};
use crate::state::{FoldError, FoldedRun, Misfit};
use crate::vault::Destinations;
use fan::FanOutResult;
use views::Views;

mod account;
pub(crate) mod command;
mod context;
pub(crate) mod earlier;
mod fan;
mod first_effect;
mod gate;
pub(crate) mod kept_generations;
mod large;
pub(crate) mod leave;
mod load;
mod look;
mod name_undo;
mod named;
pub(crate) mod notice;
mod outbox;
mod outcomes;
mod outlast;
pub(crate) mod parent_state;
mod pause;
mod pending_write;
mod perform;
mod reads;
pub(crate) mod room;
pub(crate) mod sent;
mod stuck;
pub(crate) mod take;
mod unreadable;
mod views;
mod write;

use account::{MemoryAccount, MemoryNeed};
use first_effect::FirstAct;
pub(crate) use first_effect::{FirstEffectPlan, first_row};
pub(crate) use load::{LoadedRun, TurnStart};
use pending_write::{PendingWrite, Sent};
pub(crate) use stuck::{TAKES_MAX, inconsistent};
pub(crate) use views::views;

/// What happens to the lease of a run that only an operator wakes.
const STOPPED: LeaseChange = LeaseChange::Return {
    due_at: None,
    stage: Stage::Stopped,
};

/// One run that this process holds.
pub struct Turn {
    runtime: Arc<Runtime>,
    release: Arc<Release>,
    session: Arc<WorkerSession>,
    place: Place,
    /// What the run takes beyond what its place was weighed with.
    account: MemoryAccount,
    carried: Carried,
    /// Keeps the run from being returned to the queue as one that no turn carries.
    _holding: Holding,
    run: RunId,
    key: Key,
    partition_date: Date,
    accepted_at: Timestamp,
    /// The gates of the run, once they were computed.
    gates: Option<Vec<Gate>>,
    epoch: i64,
    seq: i32,
    takes: i16,
    state: FoldedRun,
    views: Views,
    /// What the run does first, whose intent was committed when the run was accepted.
    opening: Option<FirstAct>,
    answers: Vec<(WaitId, Value)>,
    late_responses: Vec<(EffectId, Value)>,
    outside: ExternalResult,
    cancel: bool,
    /// The place of the step at whose destination this turn has looked, and found nothing.
    looked: Option<usize>,
    /// Whether this turn has asked a destination for room.
    asked_room: bool,
    /// What happened since the last write.
    pending: PendingWrite,
    /// The response to an effect that happened and is not recorded yet.
    unrecorded: Option<LateResponse>,
    /// The attempt that was made since the last write.
    sent: Option<Sent>,
    /// Whether the record said that the run is quarantined when it was taken.
    quarantined: bool,
    /// Whether the take was counted.
    charged: bool,
    /// Held while the run is one of a group that was taken before without progress.
    suspect: Option<Arc<SuspectGroup>>,
    /// Whether the lease was returned or lost, so that nothing is left to return.
    lease_over: bool,
    /// Whether something else changed the run before its last write.
    overtaken: bool,
    /// Whether its last write was refused because of pauses that this process knows of now: no fault of
    /// the run.
    refused_by_pause: bool,
    /// What was paused when the turn last decided.
    pauses: Arc<PauseSet>,
}

/// Why a turn ended without returning its lease.
#[derive(Debug)]
pub enum TurnError {
    /// Another worker has the run.
    Fenced,
    /// The database did not take the write, or this process does not know what it wrote.
    Unsure(String),
    /// The database refuses the values that the run wants to write; nothing was written.
    Refused(String),
    /// Something was paused or resumed since the turn decided: the intent was not written.
    PausesChanged,
    /// An event does not fit the state of the run: a defect. Nothing of it was written.
    Inconsistent(FoldError),
}

impl Turn {
    /// The slot of the run.
    fn cell(&self) -> SlotCell<'_> {
        self.runtime.cell.of(self.run)
    }

    /// Carries the run on until it ends, sleeps or is lost.
    pub(crate) async fn drive(mut self) {
        let gone = match self.stuck() {
            Some(fault) => self.stop_run(StopReason::Quarantined, fault).await,
            None if self.stays_quarantined() => self.commit(STOPPED).await,
            None => self.go_boxed().await,
        };
        if let Err(stop) = gone {
            self.handle_error(stop).await;
        }
    }

    /// What `go` does, boxed in a function that is no coroutine: so the code of a turn is compiled once,
    /// in this crate, and not again in every crate that awaits something which may take a turn.
    fn go_boxed(&mut self) -> BoxFuture<'_, Result<(), TurnError>> {
        Box::pin(self.go())
    }

    async fn go(&mut self) -> Result<(), TurnError> {
        // Even when the process is stopping: an intent that no worker follows would become a doubt.
        match self.opening.take() {
            Some(FirstAct::Perform(request, room)) => {
                self.perform_in(room.map(|room| *room), request).await?;
            }
            Some(FirstAct::Change(change)) => self.change(change).await?,
            None => {}
        }
        if self.pauses_before_gates().await? || !self.pass_gates().await? {
            return Ok(());
        }
        // What few runs do is boxed, so that the future of every other turn stays small.
        if self.state.earlier.is_some() && !Box::pin(self.read_earlier()).await? {
            return Ok(());
        }
        self.runtime.know_connections(&self.release).await;
        loop {
            // The run sleeps for room at a destination.
            if self.lease_over {
                return Ok(());
            }
            if self.runtime.shutdown.requested.is_cancelled() && self.pending.is_empty() {
                return Err(TurnError::Unsure("the process is stopping".to_owned()));
            }
            if let Some(fault) = self.too_long() {
                return self.stop_run(StopReason::Quarantined, fault).await;
            }
            match self.count_memory() {
                MemoryNeed::Met => {}
                MemoryNeed::Write => self.commit(LeaseChange::Keep).await?,
                MemoryNeed::Leave => return self.commit(self.leave_for_memory()).await,
            }
            self.look_at_pauses().await?;
            let destinations = self.runtime.destinations(&self.release);
            // Taken out meanwhile: the context borrows everything else of the turn.
            let mut state = std::mem::replace(&mut self.state, FoldedRun::new(self.run));
            let decided = decide(&mut state, &self.decide_context(&destinations));
            self.state = state;
            let decision = decided.map_err(|misfit| self.inconsistent(misfit))?;
            match self.take_in(decision) {
                NextAction::Perform(request) => self.perform(request).await?,
                NextAction::Change(change) => self.change(change).await?,
                NextAction::BeginNamed(request) => {
                    if !Box::pin(self.begin_named(*request)).await? {
                        return Ok(());
                    }
                }
                NextAction::BeginUndo(request) => {
                    if !Box::pin(self.begin_undo(*request)).await? {
                        return Ok(());
                    }
                }
                NextAction::Read(request) => self.read(&request).await?,
                NextAction::ReadEntry(operation) => self.read_entry(&operation).await?,
                NextAction::Probe(request) => Box::pin(self.probe(&request)).await?,
                NextAction::Look(request) => Box::pin(self.look_first(&request)).await?,
                NextAction::Sleep { until, retrying } => {
                    let stage = if retrying {
                        Stage::Retrying
                    } else {
                        Stage::Waiting
                    };
                    let due_at = until;
                    return self.commit(LeaseChange::Return { due_at, stage }).await;
                }
                NextAction::Fan => {
                    if let FanOutResult::Sleep = Box::pin(self.fan()).await? {
                        let stage = Stage::Waiting;
                        let due_at = None;
                        return self.commit(LeaseChange::Return { due_at, stage }).await;
                    }
                }
                // At the beginning of the next round.
                NextAction::CountMemory => {}
                NextAction::Pause(pause) => return self.sleep_for(pause).await,
                NextAction::StopRun(reason, fault) => return self.stop_run(reason, fault).await,
                NextAction::End(mut end) => {
                    self.leave_gates(&mut end).await?;
                    self.record(end)?;
                    return self.commit(LeaseChange::End).await;
                }
            }
        }
    }

    /// Keeps what was decided for the next write; returns what comes next.
    fn take_in(&mut self, decision: Decision) -> NextAction {
        let Decision {
            events,
            changes,
            act,
        } = decision;
        self.pending.change(changes);
        for event in events {
            if let Event::Reused { step, .. } = &event {
                self.note_reuse(step);
            }
            let announced = event::announce(&self.announce_context(), &self.state, &event);
            self.pending.add(event, RowChanges::default(), announced);
        }
        act
    }

    /// Applies an event, and keeps it for the next write with what it changes and announces.
    pub(crate) fn record(&mut self, event: Event) -> Result<(), TurnError> {
        let (now, flow) = (self.runtime.clock.now(), &self.release.flow);
        let before = Before::of(&self.state, flow);
        let applied = event::apply(&mut self.state, &event, flow, now);
        applied.map_err(|misfit| self.inconsistent(misfit))?;
        let changes = event::project(&before, &event, &self.state, &self.release.flow);
        let announced = event::announce(&self.announce_context(), &self.state, &event);
        self.pending.add(event, changes, announced);
        Ok(())
    }

    /// An event does not fit: it would have been in the next row of the journal.
    fn inconsistent(&self, misfit: Misfit) -> TurnError {
        TurnError::Inconsistent(misfit.at(self.seq + 1))
    }

    /// The run was taken before without progress: it is one of its group until it makes some.
    pub(crate) fn suspected(mut self, suspect: Option<Arc<SuspectGroup>>) -> Self {
        self.suspect = suspect;
        self
    }

    /// Takes without progress no longer count: an operator resumed the run.
    pub(crate) fn forgive(&mut self) {
        self.takes = 0;
    }

    /// Counts something of the run's flow.
    pub(crate) fn tally(&self, what: TallyKind, count: u64) {
        let flow = self.release.tallied();
        self.runtime.local.tallies.add(flow, what, count);
    }

    /// Stops the run until an operator acts.
    pub(crate) async fn stop_run(
        &mut self,
        reason: StopReason,
        fault: Fault,
    ) -> Result<(), TurnError> {
        let stops = !self.state.stopped;
        if stops {
            // Not the message: a destination's answer and the run's key outlive an erasure in the log.
            tracing::warn!(run.id = %self.run, code = fault.code, "run stopped until an operator acts");
            self.record(Event::Stopped { reason, fault })?;
        }
        self.commit(STOPPED).await?;
        // A write that was refused is made by another turn, which counts it then.
        if stops {
            self.runtime.metrics.runs_stopped.add_one();
            self.tally(TallyKind::Stopped, 1);
        }
        Ok(())
    }

    /// Where the connections of the run's release lead.
    pub(crate) fn destinations(&self) -> Arc<Destinations> {
        self.runtime.destinations(&self.release)
    }

    /// The state of the run.
    pub(crate) fn state(&self) -> &FoldedRun {
        &self.state
    }

    /// The flow that the run is on.
    pub(crate) fn flow(&self) -> &Flow {
        &self.release.flow
    }

    /// A commit point: where tests hold the process, and where a rehearsal ends one.
    async fn reach(&self, name: &'static str) {
        self.reach_at(name, None).await;
    }

    /// The same for a write about a step, where that is not the one that the run stands at.
    async fn reach_at(&self, name: &'static str, step: Option<&str>) {
        failpoint(name, &self.key.text()).await;
        if let Some(rehearsal) = &self.runtime.rehearsal {
            let current = self.state.step(&self.release.flow);
            let current = current.map_or("", |step| step.id.as_str());
            let point = CrashPoint {
                name,
                namespace_id: self.release.namespace_id,
                run: self.run,
                step: step.unwrap_or(current),
            };
            rehearsal.points.reach(point).await;
        }
    }

    /// In a rehearsal, the step that the next write is about.
    fn rehearsed_step(&self) -> Option<String> {
        let rehearsed = self.runtime.rehearsal.is_some();
        let step = rehearsed.then(|| self.pending.subject_step()).flatten();
        step.map(str::to_owned)
    }

    fn step(&self) -> &Step {
        match self.state.step(&self.release.flow) {
            Some(step) => step,
            None => unreachable!("a run without steps left acts no more"),
        }
    }
}

impl Drop for Turn {
    /// A turn that ends in any other way than by returning its lease leaves a run that this process
    /// holds and does not move.
    fn drop(&mut self) {
        if !self.lease_over {
            let is_stopping = self.runtime.shutdown.requested.is_cancelled();
            let cause = match (self.overtaken, is_stopping || self.refused_by_pause) {
                (true, _) => ReturnCause::Overtaken,
                (false, true) if self.charged => ReturnCause::Stopping,
                // Its take was not counted, so that there is nothing to undo.
                (false, true) => ReturnCause::Overtaken,
                (false, false) => ReturnCause::Trouble,
            };
            let lease = (self.run, self.epoch);
            self.runtime.return_to_queue(lease, self.session.id, cause);
        }
    }
}

/// The database did not answer, so that whether anything was written is not known; or it refuses.
fn unsure(error: ReadError) -> TurnError {
    match error.refusal() {
        Some(words) => TurnError::Refused(words),
        None => TurnError::Unsure(error.to_string()),
    }
}
