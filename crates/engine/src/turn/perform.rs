//! How a turn acts on the outside world: attempts, reads and probes.

use std::sync::Arc;

use jiff::Timestamp;
use semel_model::effect::{ConfirmedBy, Effect, LedgerEntry, Pending};
use semel_model::event::Event;
use semel_model::kv::{Operation, Verb};
use semel_model::request::{Emission, ExternalRequest, LocalChange};
use semel_model::seeded_bug::SeededBug;
use semel_model::{EffectId, Fault, Outcome, json};
use semel_steps::{Attempt, Destination, Origin, Room, Route};
use semel_store::journal::LeaseChange;
use semel_store::late_responses::LateResponse;
use serde_json::{Value, json};

use super::room::unless_slow;
use super::{Sent, Turn, TurnError};
use crate::event::{self, EffectSnapshot};
use crate::llm::{self, Question};
use crate::runtime::jitter;
use crate::state::{Current, PendingEffect};
use crate::{decide, settle};

impl Turn {
    /// Performs the effect whose intent was decided, once its destination has room for it; until then
    /// the run sleeps.
    pub(super) async fn perform(&mut self, request: ExternalRequest) -> Result<(), TurnError> {
        match self.find_room(&request) {
            Ok(room) => self.perform_in(room, request).await,
            Err(fault) => self.rest_for_room(&fault).await,
        }
    }

    /// Writes the intent, has the request sent, and keeps its outcome for the next write.
    pub(super) async fn perform_in(
        &mut self,
        mut room: Option<Room>,
        request: ExternalRequest,
    ) -> Result<(), TurnError> {
        let intended = unless_slow(self.write_intent(), || room = None).await?;
        let Some(effect) = intended else {
            return self.blind(&request).await;
        };
        self.note_sent();
        let outcome = self.send(&request, &effect, room).await;
        self.take_outcome(&effect, outcome).await
    }

    /// Changes Semel's own tables, with the next write as far as that is possible: the intent goes with
    /// it, or is written before.
    pub(super) async fn change(&mut self, change: LocalChange) -> Result<(), TurnError> {
        // What an attempt outside came to is written first: nothing may lose it.
        let is_coalesced = self.sent.is_none() && self.pending.try_coalesce(&change);
        let effect = match is_coalesced {
            true => self.intended(),
            false => self.write_intent().await?,
        };
        let Some(effect) = effect else {
            return Ok(());
        };
        match change {
            LocalChange::Kv(operation) => self.perform_kv(operation).await,
            LocalChange::Emit(emission) => {
                let key = self.state.effect().map(PendingEffect::key);
                self.perform_emit(key.unwrap_or(effect.id()), emission)
            }
            LocalChange::Start(start) => self.perform_start(effect.id(), start),
            LocalChange::Persist(request) => {
                self.note_sent();
                let (namespace_id, step) = (self.release.namespace_id, self.step().id.as_str());
                let resources = self.runtime.resources();
                let persisting = resources.persist(namespace_id, self.run, step, &request);
                let outcome = persisting.await;
                self.take_outcome(&effect, outcome).await
            }
        }
    }

    /// Commits the intent; gives the effect that is to be performed now.
    async fn write_intent(&mut self) -> Result<Option<Effect<Pending>>, TurnError> {
        if SeededBug::OutcomeBeforeSend.is_seeded() {
            let event = decide::confirmed(self.step(), &json!({}), ConfirmedBy::Answer);
            self.record(event)?;
        }
        self.commit(LeaseChange::Keep).await?;
        let now = self.runtime.clock.now();
        if let Current::Effect(pending) = &mut self.state.current {
            // The commit may have taken its time, and nothing is sent before it: the landing time is
            // counted from here, as a worker that reads the journal counts it.
            pending.intended_at = now;
        }
        Ok(self.intended())
    }

    /// The effect that is intended and has no outcome yet.
    fn intended(&self) -> Option<Effect<Pending>> {
        match &self.state.effect()?.entry {
            LedgerEntry::Pending(effect) => Some(effect.clone()),
            LedgerEntry::Retrying(_)
            | LedgerEntry::InDoubt(_)
            | LedgerEntry::Failed(_)
            | LedgerEntry::Done(_) => None,
        }
    }

    /// Remembers that an attempt is made before the next write.
    fn note_sent(&mut self) {
        let snapshot = EffectSnapshot::of(&self.state, &self.release.flow);
        self.sent = snapshot.map(|effect| Sent {
            step: self.step().id.to_string(),
            effect,
        });
    }

    /// Keeps what an attempt came to for the next write.
    async fn take_outcome(
        &mut self,
        effect: &Effect<Pending>,
        outcome: Outcome,
    ) -> Result<(), TurnError> {
        let settled = match &self.state.current {
            // What is done needs no judgement.
            Current::Effect(_) if matches!(outcome, Outcome::Done(_)) => None,
            Current::Effect(pending) => {
                let destinations = self.runtime.destinations(&self.release);
                let judged_by = decide::settle_context(
                    &self.decide_context(&destinations),
                    self.step(),
                    pending,
                );
                settle::settle(judged_by, effect, &outcome)
            }
            Current::Fresh
            | Current::Reading(_)
            | Current::Waiting { .. }
            | Current::Fan(_)
            | Current::Approving(_)
            | Current::Broken(_) => unreachable!("nothing moved the run while it acted"),
        };
        let event = match (settled, &outcome) {
            (Some(event), _) => event,
            (None, Outcome::Done(receipt)) => {
                self.unrecorded = Some(LateResponse {
                    effect: effect.id(),
                    attempt: i32::try_from(effect.attempt()).unwrap_or(i32::MAX),
                    response: json::readable(receipt.response.clone()),
                });
                decide::confirmed(self.step(), &receipt.response, ConfirmedBy::Answer)
            }
            (None, Outcome::Failed(_) | Outcome::InDoubt(_)) => {
                decide::confirmed(self.step(), &Value::Null, ConfirmedBy::Answer)
            }
        };
        let event = self.settle_large(&outcome, event).await;
        self.record(event)
    }

    async fn send(
        &self,
        request: &ExternalRequest,
        effect: &Effect<Pending>,
        room: Option<Room>,
    ) -> Outcome {
        let attempt = effect.attempt();
        let key = if attempt > 1 && SeededBug::NewKeyOnRetry.is_seeded() {
            EffectId::derive(self.run, &jitter().to_string(), "", attempt)
        } else {
            self.state.effect().map_or(effect.id(), PendingEffect::key)
        };
        let to = match self.destination(request).await {
            Ok(to) => to,
            Err(fault) => return Outcome::Failed(fault),
        };
        let attempt = Attempt {
            request,
            route: self.route(to.as_deref()),
            key,
            guard: effect.guard(),
        };
        // In a box: a call is large, and turns are many.
        match room {
            Some(room) => self.session.executors.perform_in(room, attempt).await,
            None => self.session.executors.perform(attempt).await,
        }
    }

    /// Where a request goes, where it names a connection.
    pub(super) async fn destination(
        &self,
        request: &ExternalRequest,
    ) -> Result<Option<Arc<Destination>>, Fault> {
        let Some(name) = request.connection() else {
            return Ok(None);
        };
        let namespace_id = self.release.namespace_id;
        match self.runtime.find_destination(namespace_id, name).await {
            Some(destination) => Ok(Some(destination)),
            None => {
                let message =
                    format!("there is no connection `{name}`: semel connection create {name}");
                Err(Fault::passing("connection-missing", message))
            }
        }
    }

    /// Makes a request that changes nothing.
    pub(super) async fn ask(&self, request: &ExternalRequest) -> Outcome {
        let to = match self.destination(request).await {
            Ok(to) => to,
            Err(fault) => return Outcome::Failed(fault),
        };
        let route = self.route(to.as_deref());
        let asking = Box::pin(self.session.executors.read(route, request));
        match (request, &to) {
            (ExternalRequest::Llm(request), Some(to)) => {
                let question = Question {
                    request,
                    to,
                    run: self.run,
                    flow: &self.release.flow.name,
                };
                let shared = (&self.runtime.local.questions, &self.runtime.reach.answers);
                llm::ask(&self.runtime.cell, shared, &question, asking).await
            }
            _ => asking.await,
        }
    }

    /// An event commits with the outcome of the step that emits it.
    fn perform_emit(&mut self, effect: EffectId, emission: Emission) -> Result<(), TurnError> {
        let step = self.step().id.to_string();
        let result = json!({ "id": effect.to_string() });
        self.pending.emit(effect, emission);
        self.record(Event::Done {
            step,
            by: ConfirmedBy::Commit,
            external_id: None,
            status: None,
            result,
        })
    }

    /// Only sends by a seeded bug: the outcome was written before the send.
    async fn blind(&self, request: &ExternalRequest) -> Result<(), TurnError> {
        if SeededBug::OutcomeBeforeSend.is_seeded() {
            Box::pin(self.session.executors.read(self.route(None), request)).await;
        }
        Ok(())
    }

    pub(super) fn route<'a>(&'a self, to: Option<&'a Destination>) -> Route<'a> {
        Route {
            namespace_id: self.release.namespace_id,
            to,
            origin: Some(Origin {
                run: self.run,
                step: self.step().id.as_str(),
            }),
        }
    }

    /// An operation whose result is known goes with the next write; another is a write of its own.
    async fn perform_kv(&mut self, operation: Operation) -> Result<(), TurnError> {
        let step = self.step().id.to_string();
        let foreseen = operation.verb.known_result();
        let retry_at = self.lock_retry_at(&operation);
        self.pending.write_entry(step.clone(), operation, retry_at);
        if let Some(result) = foreseen {
            return self.record(Event::Done {
                step,
                by: ConfirmedBy::Commit,
                external_id: None,
                status: None,
                result,
            });
        }
        let changes = event::expect_done(&self.state, &self.release.flow, &step);
        self.pending.expect_event(changes);
        self.commit(LeaseChange::Keep).await
    }

    /// When a lock that another run has is asked for again.
    fn lock_retry_at(&self, operation: &Operation) -> Option<Timestamp> {
        let Current::Effect(pending) = &self.state.current else {
            return None;
        };
        if !matches!(operation.verb, Verb::Lock { .. }) {
            return None;
        }
        let now = self.runtime.clock.now();
        let judged_by = settle::SettleContext::of_read(self.step(), pending.since, now, jitter());
        let delay = judged_by.delay(pending.entry.attempt(), None)?;
        Some(now + delay.to_duration())
    }
}
