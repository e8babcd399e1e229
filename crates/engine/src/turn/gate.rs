//! How a turn passes the gates: before the run's first step, and at its end.
//!
//! Admission is a commit of the gate; its decision goes into the journal with the run's next write.
//! A run that waits sleeps, and looks once more after it fell asleep: a wake-up in between found
//! the run held by this worker.

use std::time::Duration;

use semel_flow::Scope;
use semel_model::event::{Event, GateWait};
use semel_model::gate::{GateKind, GateOperation, GatePolicy, GateVerdict};
use semel_model::run::{EndState, RunState};
use semel_model::{Fault, RunId, gate};
use semel_store::gate_exits::GateExit;
use semel_store::gates::{self as tickets, GateRequest};
use semel_store::journal::LeaseChange;
use semel_store::object_versions::{self, Age};
use semel_store::queue;
use semel_store::runs::{self, Stage};
use serde_json::Value;

use super::leave;
use super::write::unwritten;
use super::{Turn, TurnError, unsure};
use crate::gates::{self, Gate};

/// How long a run that joined another one waits where that one was resumed after its end.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

impl Turn {
    /// Passes the gates that the run has not passed yet. False where it sleeps or has ended there.
    pub(super) async fn pass_gates(&mut self) -> Result<bool, TurnError> {
        // A run that is to end need not wait for admission.
        if !self.has_gates() || self.cancel {
            return Ok(true);
        }
        let gates = match self.list_gates() {
            Ok(gates) => gates.to_vec(),
            Err(reason) => {
                let fault = Fault::permanent("object-unclear", reason);
                self.end(EndState::Failed, Value::Null, Some(fault)).await?;
                return Ok(false);
            }
        };
        for gate in gates {
            if !self.state.admitted.contains(&gate.kind) && !self.enter(&gate).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Asks for admission. False where the run sleeps or has ended.
    async fn enter(&mut self, gate: &Gate) -> Result<bool, TurnError> {
        let visit = GateOperation::Enter {
            accepted_at: self.accepted_at,
            since: self.seq,
            rules: gate.rules,
        };
        let (id, run) = (gate.id, self.run);
        self.reach("enter.before").await;
        let call = GateRequest {
            gate: id,
            run,
            operation: visit,
        };
        let answer = self.runtime.limiter.visiting.write(call).await;
        let answer = answer.map_err(unwritten)?;
        self.reach("enter.after").await;
        // Before this run sleeps: a turn that comes back here asks again.
        if let Some(other) = answer.wanted {
            let (cell, namespace_id) = (self.runtime.cell.of(other), self.release.namespace_id);
            let asked = queue::ask_cancel(cell, namespace_id, other).await;
            asked.map_err(unsure)?;
        }
        if !answer.wake_ups.is_empty() {
            let told = queue::wake_at_gate(self.runtime.cell.every(), &answer.wake_ups).await;
            told.map_err(unsure)?;
        }
        if answer.wanted.is_some() || !answer.wake_ups.is_empty() {
            self.runtime.signals.wake.notify_one();
        }
        match answer.verdict {
            Some(GateVerdict::In) => self.admitted(gate).await,
            Some(GateVerdict::Wait { behind, until }) => {
                let held = Event::GateWaiting(GateWait {
                    gate: gate.kind,
                    id,
                    behind,
                    until,
                });
                self.sleep_at(gate, held, until).await
            }
            Some(GateVerdict::Join { run, ended: false }) => {
                self.sleep_at(gate, Event::Joined { run }, None).await
            }
            Some(GateVerdict::Join { run, ended: true }) => self.end_as(run).await,
            Some(GateVerdict::Skip { by }) => {
                let message = format!("{by} of the same object was running");
                let fault = Fault::permanent("overlap-skipped", message);
                self.give_way(fault).await
            }
            Some(GateVerdict::Dropped { by }) => self.give_way(gave_way(gate, by)).await,
            None => Err(TurnError::Unsure("the gate gave no decision".to_owned())),
        }
    }

    /// The gate admitted the run. Something newer may have been accepted while it waited.
    async fn admitted(&mut self, gate: &Gate) -> Result<bool, TurnError> {
        if let Some(version) = &gate.version {
            let age = object_versions::judge(self.runtime.cell.of(gate.id), gate.id, version).await;
            if let Age::Stale(newest) = age.map_err(unsure)? {
                let (own, newest) = (version.shown(), newest.shown);
                let message = format!("version {newest} of its object was accepted, this is {own}");
                return self.give_way(Fault::permanent("superseded", message)).await;
            }
        }
        self.record(Event::Admitted { gate: gate.kind })?;
        Ok(true)
    }

    /// Sleeps until the gate wakes it.
    async fn sleep_at(
        &mut self,
        gate: &Gate,
        held: Event,
        until: Option<jiff::Timestamp>,
    ) -> Result<bool, TurnError> {
        if self.state.held.as_ref() != Some(&held) {
            self.record(held)?;
        }
        let stage = Stage::Waiting;
        let due_at = until;
        self.commit(LeaseChange::Return { due_at, stage }).await?;
        let ticket = tickets::find_entry(self.runtime.cell.of(gate.id), gate.id, self.run).await;
        let ticket = ticket.map_err(unsure)?;
        if let Some(ticket) = ticket.filter(|ticket| ticket.needs_wake_up) {
            let at = ticket.ready_at.unwrap_or(self.accepted_at);
            let run = self.run;
            let told =
                queue::wake_at_gate(self.runtime.cell.every(), &[gate::WakeUp { run, at }]).await;
            told.map_err(unsure)?;
            self.runtime.signals.wake.notify_one();
        }
        Ok(false)
    }

    /// Ends as another run did.
    async fn end_as(&mut self, other: RunId) -> Result<bool, TurnError> {
        let snapshot = runs::find_snapshot(self.runtime.cell.of(other), other).await;
        let Some(snapshot) = snapshot.map_err(unsure)? else {
            let message = format!("{other}, which it joined, has been deleted");
            return self
                .give_way(Fault::permanent("joined-gone", message))
                .await;
        };
        let state = match snapshot.state {
            RunState::Succeeded => EndState::Succeeded,
            RunState::Failed => EndState::Failed,
            RunState::Cancelled => EndState::Cancelled,
            RunState::Superseded => EndState::Superseded,
            // It was resumed meanwhile.
            RunState::Active
            | RunState::InDoubt
            | RunState::NeedsReview
            | RunState::Quarantined => {
                let due_at = Some(self.runtime.clock.now() + LOOK_AGAIN);
                let stage = Stage::Waiting;
                self.commit(LeaseChange::Return { due_at, stage }).await?;
                return Ok(false);
            }
        };
        let read = |text: Option<String>| text.and_then(|text| serde_json::from_str(&text).ok());
        let result: Option<Value> = read(snapshot.result);
        let fault: Option<Value> = read(snapshot.fault);
        let fault = fault.and_then(|fault| serde_json::from_value(fault).ok());
        if self.state.held.is_none() {
            self.record(Event::Joined { run: other })?;
        }
        self.end(state, result.unwrap_or_default(), fault).await?;
        Ok(false)
    }

    /// Ends without having begun.
    async fn give_way(&mut self, fault: Fault) -> Result<bool, TurnError> {
        self.end(EndState::Superseded, Value::Null, Some(fault))
            .await?;
        Ok(false)
    }

    async fn end(
        &mut self,
        state: EndState,
        result: Value,
        fault: Option<Fault>,
    ) -> Result<(), TurnError> {
        let mut end = Event::Ended {
            state,
            result,
            fault,
        };
        self.leave_gates(&mut end).await?;
        self.record(end)?;
        self.commit(LeaseChange::End).await
    }

    /// Whether the run passes gates. A child run is admitted with its parent.
    fn has_gates(&self) -> bool {
        self.release.has_gates && self.state.child_of.is_none()
    }

    /// Notes that the run leaves its gates at its end. Where a newer run took its place, the end
    /// says so.
    pub(super) async fn leave_gates(&mut self, end: &mut Event) -> Result<(), TurnError> {
        if !self.has_gates() {
            return Ok(());
        }
        let gates = self
            .list_gates()
            .map_or_else(|_| Vec::new(), <[Gate]>::to_vec);
        self.pending.depart(gates.iter().map(|gate| gate.id));
        let replaces = |gate: &&Gate| gate.rules.policy == GatePolicy::Replace;
        let (Some(gate), true) = (gates.iter().find(replaces), self.cancel) else {
            return Ok(());
        };
        let ticket = tickets::find_entry(self.runtime.cell.of(gate.id), gate.id, self.run).await;
        let by = ticket
            .map_err(unsure)?
            .and_then(|ticket| ticket.related_run);
        if let (Some(by), Event::Ended { state, fault, .. }) = (by, end)
            && *state == EndState::Cancelled
        {
            *state = EndState::Superseded;
            *fault = Some(gave_way(gate, by));
        }
        Ok(())
    }

    /// A worker that was paused may have asked for admission of a run that had ended and left
    /// meanwhile: no other worker would ever leave for it. A run that continues, or was resumed,
    /// entered later than that, and stays.
    pub(super) async fn leave_what_is_over(&self) {
        if self.gates.is_none() {
            return;
        }
        let snapshot = runs::find_snapshot(self.cell(), self.run).await;
        let over = snapshot.is_ok_and(|known| known.is_none_or(|it| it.state.is_ended()));
        for gate in self.gates.iter().flatten().filter(|_| over) {
            let exit = GateExit {
                run: self.run,
                gate: gate.id,
                seq: self.seq + 1,
            };
            leave::leave(&self.runtime, exit, "").await;
        }
    }

    /// Leaves the gates, now that the run has ended. What this process does not get to is recorded
    /// as an exit, which gate repair completes.
    pub(super) fn tell_gates(&self) {
        for gate in self.gates.iter().flatten() {
            let (runtime, subject) = (self.runtime.clone(), self.key.text());
            let exit = GateExit {
                run: self.run,
                gate: gate.id,
                seq: self.seq,
            };
            let told = async move { leave::leave(&runtime, exit, &subject).await };
            self.runtime.work.turns.spawn(told);
        }
    }

    /// The gates of the run, in order.
    fn list_gates(&mut self) -> Result<&[Gate], String> {
        let gates = match self.gates.take() {
            Some(gates) => gates,
            None => {
                let state = &self.state;
                let scope = Scope::new()
                    .with("input", &state.input)
                    .with("headers", &state.headers)
                    .with("query", &state.query)
                    .with("trigger", &state.trigger)
                    .with("run", &self.views.run);
                let trigger = state.trigger["kind"].as_str().unwrap_or_default();
                let mut gates = gates::list(&self.release, trigger, &scope)?;
                if self.state.reopened {
                    // An operator or a sender resumed it: it waits for its turn.
                    gates
                        .iter_mut()
                        .for_each(|gate| gate.rules.policy = GatePolicy::Queue);
                }
                gates
            }
        };
        Ok(self.gates.insert(gates))
    }
}

/// A newer run of the object has its place.
fn gave_way(gate: &Gate, by: RunId) -> Fault {
    match gate.kind {
        GateKind::Limit => {
            let message = format!("{by} of the same object came before it was quiet");
            Fault::permanent("debounced", message)
        }
        GateKind::Overlap | GateKind::Order => {
            let message = format!("{by} of the same object took its place");
            Fault::permanent("overlap-replaced", message)
        }
    }
}
