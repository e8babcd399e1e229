//! Where a turn meets the world: attempts, reads and probes.

use std::sync::Arc;

use jiff::Timestamp;
use semel_flow::release::Ask;
use semel_model::effect::{Entry, Witness};
use semel_model::event::{Event, Seen};
use semel_model::kv::{Operation, Verb};
use semel_model::mistake::Mistake;
use semel_model::request::{Call, Emission};
use semel_model::{EffectId, Fault, Guard, Outcome, Receipt};
use semel_steps::{Attempt, Destination, Route};
use semel_store::evidence::Late;
use semel_store::journal::Lease;
use serde_json::{Value, json};

use super::{Stop, Turn};
use crate::decide;
use crate::engine::chance;
use crate::fold::Current;
use crate::settle;

impl Turn {
    /// Writes the intent, makes the attempt, and keeps its outcome for the next write.
    pub(super) async fn perform(&mut self, call: Call) -> Result<(), Stop> {
        if Mistake::OutcomeBeforeSend.is_seeded() {
            let event = decide::confirmed(self.step(), &json!({}), Witness::Answer);
            self.observe(event);
        }
        self.commit(Lease::Keep).await?;
        let Current::Effect(standing) = &self.state.current else {
            return self.blind(&call).await;
        };
        let Entry::Pending(effect) = standing.entry.clone() else {
            return Ok(());
        };
        let (since, window) = (standing.since, standing.window);
        match call {
            Call::Kv(operation) => return self.perform_kv(operation).await,
            Call::Emit(emission) => {
                self.perform_emit(effect.id(), emission);
                return Ok(());
            }
            Call::Http(_)
            | Call::Db(_)
            | Call::Ssh(_)
            | Call::Notify(_)
            | Call::Llm(_)
            | Call::Persist(_) => {}
        }
        let outcome = self
            .send(&call, effect.id(), effect.guard(), effect.attempt())
            .await;
        let bench = settle::Bench {
            step: self.step(),
            window,
            since,
            now: self.inner.clock.now(),
            chance: chance(),
        };
        let event = match (settle::settle(bench, &effect, &outcome), &outcome) {
            (Some(event), _) => event,
            (None, Outcome::Done(receipt)) => {
                self.unrecorded = Some(Late {
                    effect: effect.id(),
                    attempt: i32::try_from(effect.attempt()).unwrap_or(i32::MAX),
                    response: receipt.response.clone(),
                });
                decide::confirmed(self.step(), &receipt.response, Witness::Answer)
            }
            (None, Outcome::Failed(_) | Outcome::InDoubt(_)) => {
                decide::confirmed(self.step(), &Value::Null, Witness::Answer)
            }
        };
        self.observe(event);
        Ok(())
    }

    async fn send(&self, call: &Call, effect: EffectId, guard: Guard, attempt: u32) -> Outcome {
        let key = if attempt > 1 && Mistake::NewKeyOnRetry.is_seeded() {
            EffectId::derive(self.run, &chance().to_string(), "", attempt)
        } else {
            effect
        };
        let to = match self.destination(call) {
            Ok(to) => to,
            Err(fault) => return Outcome::Failed(fault),
        };
        let attempt = Attempt {
            namespace_id: self.release.namespace_id,
            call,
            to: to.as_deref(),
            key,
            guard,
        };
        // In a box: a call is large, and turns are many.
        Box::pin(self.tenure.executors.perform(attempt)).await
    }

    /// Where a call goes, where it names a connection.
    fn destination(&self, call: &Call) -> Result<Option<Arc<Destination>>, Fault> {
        let Some(name) = call.connection() else {
            return Ok(None);
        };
        let linked = self.inner.vault.linked(self.release.namespace_id);
        match linked.find(name) {
            Some(destination) => Ok(Some(destination.clone())),
            None => {
                let message =
                    format!("there is no connection `{name}`: semel connection create {name}");
                Err(Fault::passing("connection-missing", message))
            }
        }
    }

    /// Makes a call that changes nothing.
    async fn ask(&self, call: &Call) -> Outcome {
        match self.destination(call) {
            Ok(to) => {
                let route = self.route(to.as_deref());
                Box::pin(self.tenure.executors.read(route, call)).await
            }
            Err(fault) => Outcome::Failed(fault),
        }
    }

    /// An event commits with the outcome of the step that emits it.
    fn perform_emit(&mut self, effect: EffectId, emission: Emission) {
        let step = self.step().id.to_string();
        let result = json!({ "id": effect.to_string() });
        self.notes.emit(effect, emission);
        self.observe(Event::Done {
            step,
            by: Witness::Commit,
            external_id: None,
            status: None,
            result,
        });
    }

    /// Only ever reached by a seeded mistake: the outcome was written before the send.
    async fn blind(&self, call: &Call) -> Result<(), Stop> {
        Box::pin(self.tenure.executors.read(self.route(None), call)).await;
        Ok(())
    }

    fn route<'a>(&self, to: Option<&'a Destination>) -> Route<'a> {
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
        self.notes.write_entry(step.clone(), operation, retry_at);
        if let Some(result) = foreseen {
            self.observe(Event::Done {
                step,
                by: Witness::Commit,
                external_id: None,
                status: None,
                result,
            });
            return Ok(());
        }
        self.notes.expect_done(self.run);
        self.commit(Lease::Keep).await
    }

    /// When a lock that another run has is asked for again.
    fn lock_retry_at(&self, operation: &Operation) -> Option<Timestamp> {
        let Current::Effect(standing) = &self.state.current else {
            return None;
        };
        if !matches!(operation.verb, Verb::Lock { .. }) {
            return None;
        }
        let now = self.inner.clock.now();
        let bench = settle::Bench {
            step: self.step(),
            window: None,
            since: standing.since,
            now,
            chance: chance(),
        };
        let delay = bench.delay(standing.entry.attempt(), None)?;
        Some(now + delay.to_duration())
    }

    pub(super) async fn read(&mut self, call: &Call) -> Result<(), Stop> {
        self.commit_what_matters().await?;
        let outcome = self.ask(call).await;
        let name = self.step().id.to_string();
        let event = match outcome {
            Outcome::Done(receipt) => {
                let status = receipt.status;
                match decide::read_result(self.step(), &receipt) {
                    Ok(result) => Event::Computed {
                        step: name,
                        result,
                        status,
                        usage: usage_of(call, &receipt),
                    },
                    Err(fault) => Event::Broken {
                        step: Some(name),
                        fault,
                    },
                }
            }
            Outcome::Failed(fault) => self.read_failed(name, fault),
            // Nothing can have happened: a read may simply be made again.
            Outcome::InDoubt(doubt) => {
                let fault = Fault {
                    code: doubt.code,
                    message: doubt.message,
                    retryable: true,
                    retry_after: doubt.retry_after,
                };
                self.read_failed(name, fault)
            }
        };
        self.observe(event);
        Ok(())
    }

    fn read_failed(&self, step: String, fault: Fault) -> Event {
        let now = self.inner.clock.now();
        let (attempts, since) = match &self.state.current {
            Current::Reading(reading) => (reading.attempts, reading.since),
            Current::Fresh | Current::Effect(_) | Current::Waiting { .. } | Current::Broken(_) => {
                (0, now)
            }
        };
        let bench = settle::Bench {
            step: self.step(),
            window: None,
            since,
            now,
            chance: chance(),
        };
        let delay = bench
            .delay(attempts + 1, fault.retry_after)
            .filter(|_| fault.retryable);
        Event::ReadFailed {
            step,
            fault,
            retry_at: delay.map(|delay| now + delay.to_duration()),
        }
    }

    pub(super) async fn read_entry(&mut self, operation: &Operation) -> Result<(), Stop> {
        self.commit_what_matters().await?;
        let namespace_id = self.release.namespace_id;
        let result = semel_store::kv::get(&self.inner.cell, namespace_id, &operation.entry)
            .await
            .map_err(|error| Stop::Unsure(error.to_string()))?;
        let step = self.step().id.to_string();
        self.observe(Event::Computed {
            step,
            result,
            status: None,
            usage: Value::Null,
        });
        Ok(())
    }

    pub(super) async fn probe(&mut self, call: &Call) -> Result<(), Stop> {
        self.commit_what_matters().await?;
        let outcome = match (decide::probe_of(self.step()), &self.state.current) {
            (Some(probe), Current::Effect(standing)) if probe.ask == Ask::Marker => {
                let key = standing.entry.id();
                match self.destination(call) {
                    Ok(to) => {
                        let route = self.route(to.as_deref());
                        let executors = &self.tenure.executors;
                        Box::pin(executors.find_marker(route, call, key)).await
                    }
                    Err(fault) => Outcome::Failed(fault),
                }
            }
            _ => self.ask(call).await,
        };
        let event = self.read_probe(outcome);
        self.observe(event);
        Ok(())
    }

    fn read_probe(&self, outcome: Outcome) -> Event {
        let step = self.step();
        let name = step.id.to_string();
        let absent = Event::Probed {
            step: name.clone(),
            seen: Seen::Absent,
        };
        let Some(probe) = decide::probe_of(step) else {
            let fault = Fault::permanent("no-probe", "the step has no probe");
            return unclear(name, fault, None);
        };
        let fault = match (outcome, &probe.ask) {
            (Outcome::Done(receipt), Ask::Http { found, .. } | Ask::Db { found, .. }) => {
                let scope = semel_flow::Scope::new().with("probe", &receipt.response);
                match found.eval_bool(&scope) {
                    Ok(true) => return decide::found(step, probe, &receipt.response),
                    Ok(false) => return absent,
                    Err(error) => Fault::permanent(error.code(), error.to_string()),
                }
            }
            (Outcome::Done(receipt), Ask::Marker) => {
                return decide::found(step, probe, &receipt.response);
            }
            // "Not found" is an answer: the destination looked, and there is nothing.
            (Outcome::Failed(fault), Ask::Http { .. }) if fault.code == "http-404" => {
                return absent;
            }
            (Outcome::Failed(fault), Ask::Marker) if fault.code == "marker-absent" => {
                return absent;
            }
            (Outcome::Failed(fault), _) => fault,
            // It began, and nobody knows how it ended: asking again will not tell.
            (Outcome::InDoubt(doubt), Ask::Marker) => Fault::permanent(doubt.code, doubt.message),
            (Outcome::InDoubt(doubt), _) => Fault::passing(doubt.code, doubt.message),
        };
        let retry_at = match &self.state.current {
            Current::Effect(standing) if fault.retryable => {
                let now = self.inner.clock.now();
                let bench = settle::Bench {
                    step,
                    window: None,
                    since: standing.since,
                    now,
                    chance: chance(),
                };
                bench
                    .delay(standing.probes + 1, fault.retry_after)
                    .map(|d| now + d.to_duration())
            }
            Current::Fresh
            | Current::Reading(_)
            | Current::Effect(_)
            | Current::Waiting { .. }
            | Current::Broken(_) => None,
        };
        unclear(name, fault, retry_at)
    }
}

fn unclear(step: String, fault: Fault, retry_at: Option<Timestamp>) -> Event {
    Event::Probed {
        step,
        seen: Seen::Unclear { fault, retry_at },
    }
}

/// What a language model read and wrote, and what that cost; null for any other read.
fn usage_of(call: &Call, receipt: &Receipt) -> Value {
    match call {
        Call::Llm(_) => json!({
            "model": receipt.response["model"],
            "tokens": receipt.response["tokens"],
            "cost": receipt.response["cost"],
        }),
        Call::Http(_)
        | Call::Kv(_)
        | Call::Db(_)
        | Call::Ssh(_)
        | Call::Notify(_)
        | Call::Persist(_)
        | Call::Emit(_) => Value::Null,
    }
}
