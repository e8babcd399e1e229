//! Where a turn meets the world: attempts, reads and probes.

use semel_model::effect::{Entry, Witness};
use semel_model::event::{Event, Seen};
use semel_model::kv::Operation;
use semel_model::mistake::Mistake;
use semel_model::request::{Call, HttpRequest};
use semel_model::{EffectId, Fault, Guard, Outcome};
use semel_steps::{Attempt, Route};
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
        let since = standing.since;
        if let Call::Kv(operation) = call {
            return self.perform_kv(operation).await;
        }
        let outcome = self
            .send(&call, effect.id(), effect.guard(), effect.attempt())
            .await;
        let bench = settle::Bench {
            step: self.step(),
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
        let attempt = Attempt {
            namespace_id: self.release.namespace_id,
            call,
            to: None,
            key,
            guard,
        };
        // In a box: a call is large, and turns are many.
        Box::pin(self.tenure.executors.perform(attempt)).await
    }

    /// Only ever reached by a seeded mistake: the outcome was written before the send.
    async fn blind(&self, call: &Call) -> Result<(), Stop> {
        Box::pin(self.tenure.executors.read(self.route(), call)).await;
        Ok(())
    }

    fn route(&self) -> Route<'_> {
        Route {
            namespace_id: self.release.namespace_id,
            to: None,
        }
    }

    /// An operation whose result is known rides on the next write; another is a write of its own.
    async fn perform_kv(&mut self, operation: Operation) -> Result<(), Stop> {
        let step = self.step().id.to_string();
        let foreseen = operation.verb.foreseen_result();
        self.notes.write_entry(step.clone(), operation);
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

    pub(super) async fn read(&mut self, request: &HttpRequest) -> Result<(), Stop> {
        self.commit_what_matters().await?;
        let outcome = Box::pin(
            self.tenure
                .executors
                .read(self.route(), &Call::Http(request.clone())),
        )
        .await;
        let name = self.step().id.to_string();
        let event = match outcome {
            Outcome::Done(receipt) => {
                let status = receipt.status;
                match decide::read_result(self.step(), &receipt) {
                    Ok(result) => Event::Computed {
                        step: name,
                        result,
                        status,
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
        });
        Ok(())
    }

    pub(super) async fn probe(&mut self, request: &HttpRequest) -> Result<(), Stop> {
        self.commit_what_matters().await?;
        let outcome = Box::pin(
            self.tenure
                .executors
                .read(self.route(), &Call::Http(request.clone())),
        )
        .await;
        let event = self.read_probe(outcome);
        self.observe(event);
        Ok(())
    }

    fn read_probe(&self, outcome: Outcome) -> Event {
        let step = self.step();
        let name = step.id.to_string();
        let fault = match (outcome, decide::probe_of(step)) {
            (Outcome::Done(receipt), Some(probe)) => {
                let scope = semel_flow::Scope::new().with("probe", &receipt.response);
                match probe.found.eval_bool(&scope) {
                    Ok(true) => return decide::found(step, probe, &receipt.response),
                    Ok(false) => {
                        return Event::Probed {
                            step: name,
                            seen: Seen::Absent,
                        };
                    }
                    Err(error) => Fault::permanent(error.code(), error.to_string()),
                }
            }
            // "Not found" is an answer: the destination looked, and there is nothing.
            (Outcome::Failed(fault), Some(_)) if fault.code == "http-404" => {
                return Event::Probed {
                    step: name,
                    seen: Seen::Absent,
                };
            }
            (Outcome::Failed(fault), _) => fault,
            (Outcome::InDoubt(doubt), _) => Fault::passing(doubt.code, doubt.message),
            (Outcome::Done(_), None) => Fault::permanent("no-probe", "the step has no probe"),
        };
        let retry_at = match &self.state.current {
            Current::Effect(standing) if fault.retryable => {
                let now = self.inner.clock.now();
                let bench = settle::Bench {
                    step,
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
        Event::Probed {
            step: name,
            seen: Seen::Unclear { fault, retry_at },
        }
    }
}
