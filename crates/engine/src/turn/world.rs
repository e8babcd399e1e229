//! How a turn acts on the outside world: attempts, reads and probes.

use std::sync::Arc;

use jiff::Timestamp;
use semel_model::effect::{ConfirmedBy, Entry};
use semel_model::event::Event;
use semel_model::kv::{Operation, Verb};
use semel_model::request::{Call, Emission};
use semel_model::seeded_bug::SeededBug;
use semel_model::{EffectId, Fault, Guard, Outcome, json};
use semel_steps::{Attempt, Destination, Route};
use semel_store::journal::Lease;
use semel_store::late_responses::Late;
use serde_json::{Value, json};

use super::{Sent, Stop, Turn};
use crate::event::{self, EffectSnapshot};
use crate::llm::{self, Question};
use crate::runtime::jitter;
use crate::state::Current;
use crate::{decide, settle};

impl Turn {
    /// Writes the intent, makes the attempt, and keeps its outcome for the next write.
    pub(super) async fn perform(&mut self, call: Call) -> Result<(), Stop> {
        if SeededBug::OutcomeBeforeSend.is_seeded() {
            let event = decide::confirmed(self.step(), &json!({}), ConfirmedBy::Answer);
            self.record(event)?;
        }
        self.commit(Lease::Keep).await?;
        let now = self.runtime.clock.now();
        let Current::Effect(pending) = &mut self.state.current else {
            return self.blind(&call).await;
        };
        // The commit may have taken its time, and nothing is sent before it: the landing time is
        // counted from here, as a worker that reads the journal counts it.
        pending.intended_at = now;
        let Entry::Pending(effect) = pending.entry.clone() else {
            return Ok(());
        };
        match call {
            Call::Kv(operation) => return self.perform_kv(operation).await,
            Call::Emit(emission) => return self.perform_emit(effect.id(), emission),
            Call::Start(start) => return self.perform_start(effect.id(), start),
            Call::Http(_)
            | Call::Db(_)
            | Call::Ssh(_)
            | Call::Notify(_)
            | Call::Llm(_)
            | Call::Persist(_)
            | Call::Task(_) => {}
        }
        let snapshot = EffectSnapshot::of(&self.state, &self.release.flow);
        self.sent = snapshot.map(|effect| Sent {
            step: self.step().id.to_string(),
            effect,
        });
        let outcome = self
            .send(&call, effect.id(), effect.guard(), effect.attempt())
            .await;
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
                settle::settle(judged_by, &effect, &outcome)
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
                self.unrecorded = Some(Late {
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

    async fn send(&self, call: &Call, effect: EffectId, guard: Guard, attempt: u32) -> Outcome {
        let key = if attempt > 1 && SeededBug::NewKeyOnRetry.is_seeded() {
            EffectId::derive(self.run, &jitter().to_string(), "", attempt)
        } else {
            effect
        };
        let to = match self.destination(call).await {
            Ok(to) => to,
            Err(fault) => return Outcome::Failed(fault),
        };
        if let Call::Persist(request) = call {
            let step = self.step().id.as_str();
            let resources = self.runtime.resources();
            let namespace_id = self.release.namespace_id;
            return resources
                .persist(namespace_id, self.run, step, request)
                .await;
        }
        let attempt = Attempt {
            namespace_id: self.release.namespace_id,
            call,
            to: to.as_deref(),
            key,
            guard,
        };
        // In a box: a call is large, and turns are many.
        Box::pin(self.session.executors.perform(attempt)).await
    }

    /// Where a call goes, where it names a connection.
    pub(super) async fn destination(&self, call: &Call) -> Result<Option<Arc<Destination>>, Fault> {
        let Some(name) = call.connection() else {
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

    /// Makes a call that changes nothing.
    pub(super) async fn ask(&self, call: &Call) -> Outcome {
        let to = match self.destination(call).await {
            Ok(to) => to,
            Err(fault) => return Outcome::Failed(fault),
        };
        let route = self.route(to.as_deref());
        let asking = Box::pin(self.session.executors.read(route, call));
        match (call, &to) {
            (Call::Llm(request), Some(to)) => {
                let question = Question {
                    request,
                    to,
                    run: self.run,
                    flow: &self.release.flow.name,
                };
                llm::ask(
                    &self.runtime.cell,
                    &self.runtime.local.questions,
                    &question,
                    asking,
                )
                .await
            }
            _ => asking.await,
        }
    }

    /// An event commits with the outcome of the step that emits it.
    fn perform_emit(&mut self, effect: EffectId, emission: Emission) -> Result<(), Stop> {
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

    /// Only ever reached by a seeded bug: the outcome was written before the send.
    async fn blind(&self, call: &Call) -> Result<(), Stop> {
        Box::pin(self.session.executors.read(self.route(None), call)).await;
        Ok(())
    }

    pub(super) fn route<'a>(&self, to: Option<&'a Destination>) -> Route<'a> {
        Route {
            namespace_id: self.release.namespace_id,
            to,
        }
    }

    /// An operation whose result is known rides on the next write; another is a write of its own.
    async fn perform_kv(&mut self, operation: Operation) -> Result<(), Stop> {
        let step = self.step().id.to_string();
        let foreseen = operation.verb.foreseen_result();
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
        self.commit(Lease::Keep).await
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
