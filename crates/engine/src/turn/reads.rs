//! Reads and probes: what may be asked again.

use jiff::Timestamp;
use semel_flow::release::{Ask, Probe};
use semel_model::effect::ConfirmedBy;
use semel_model::event::{Event, ProbeFinding};
use semel_model::kv::Operation;
use semel_model::request::ExternalRequest;
use semel_model::{Doubt, Fault, FaultKind, Looked, Outcome};
use semel_store::kv;
use serde_json::Value;

use super::{Turn, TurnError, unsure};
use crate::decide;
use crate::runtime::jitter;
use crate::settle;
use crate::state::Current;

impl Turn {
    pub(super) async fn read(&mut self, request: &ExternalRequest) -> Result<(), TurnError> {
        self.commit_what_matters().await?;
        let outcome = self.ask(request).await;
        if self.rest_if_held_back(&outcome).await? {
            return Ok(());
        }
        let name = self.step().id.to_string();
        let event = match &outcome {
            Outcome::Done(receipt) => {
                let status = receipt.status;
                match decide::read_result(self.step(), receipt) {
                    Ok(result) => Event::Computed {
                        step: name,
                        result,
                        status,
                        usage: request.usage(&receipt.response),
                    },
                    Err(fault) => Event::Broken {
                        step: Some(name),
                        fault,
                    },
                }
            }
            Outcome::Failed(fault) => self.read_failed(name, fault.clone()),
            // Nothing can have happened: a read may simply be made again.
            Outcome::InDoubt(doubt) => self.read_failed(name, passing(doubt)),
        };
        let event = self.settle_large(&outcome, event).await;
        self.record(event)
    }

    /// A read that did not succeed, and when it is made again.
    pub(super) fn read_failed(&self, step: String, fault: Fault) -> Event {
        let now = self.runtime.clock.now();
        let (attempts, since) = self.state.current.reads_so_far(now);
        let judged_by = settle::SettleContext::of_read(self.step(), since, now, jitter());
        let delay = match fault.is_held_back() {
            true => judged_by.wait_for_room(fault.retry_after),
            false => judged_by
                .delay(attempts + 1, fault.retry_after)
                .filter(|_| fault.retryable),
        };
        Event::ReadFailed {
            step,
            fault,
            retry_at: delay.map(|delay| now + delay.to_duration()),
        }
    }

    pub(super) async fn read_entry(&mut self, operation: &Operation) -> Result<(), TurnError> {
        self.commit_what_matters().await?;
        let namespace_id = self.release.namespace_id;
        let entry = operation.entry.as_str();
        let cell = self.runtime.cell.of(kv::slot(namespace_id, entry));
        let result = kv::get(cell, namespace_id, entry).await.map_err(unsure)?;
        let step = self.step().id.to_string();
        self.record(Event::Computed {
            step,
            result,
            status: None,
            usage: Value::Null,
        })
    }

    pub(super) async fn probe(&mut self, request: &ExternalRequest) -> Result<(), TurnError> {
        self.commit_what_matters().await?;
        // What it finds is true from here on: what lands while it asks may be missed.
        let asked_at = self.runtime.clock.now();
        let outcome = match (decide::probe_of(self.step()), &self.state.current) {
            (Some(probe), Current::Effect(pending)) if probe.ask == Ask::Marker => {
                let key = pending.key();
                match self.destination(request).await {
                    Ok(to) => {
                        let route = self.route(to.as_deref());
                        let executors = &self.session.executors;
                        Box::pin(executors.find_marker(route, request, key)).await
                    }
                    Err(fault) => Outcome::Failed(fault),
                }
            }
            _ => self.ask(request).await,
        };
        if self.rest_if_held_back(&outcome).await? {
            return Ok(());
        }
        let event = self.read_probe(&outcome, asked_at);
        self.record(event)
    }

    /// What it means that there is nothing: only a probe that asked late enough is believed.
    fn seen_absent(&self, asked_at: Timestamp) -> ProbeFinding {
        match &self.state.current {
            Current::Effect(pending) => match pending.absent_from() {
                Some(absent_from) if asked_at < absent_from => ProbeFinding::AbsentSoFar {
                    absent_from,
                    next_at: settle::next_probe(asked_at, pending.absences, absent_from),
                },
                Some(_) | None => ProbeFinding::Absent,
            },
            Current::Fresh
            | Current::Reading(_)
            | Current::Waiting { .. }
            | Current::Fan(_)
            | Current::Approving(_)
            | Current::Broken(_) => ProbeFinding::Absent,
        }
    }

    fn read_probe(&self, outcome: &Outcome, asked_at: Timestamp) -> Event {
        let step = self.step();
        let name = step.id.to_string();
        let absent = Event::Probed {
            step: name.clone(),
            seen: self.seen_absent(asked_at),
        };
        let Some(probe) = decide::probe_of(step) else {
            let fault = Fault::permanent("no-probe", "the step has no probe");
            return unclear(name, fault, None);
        };
        let fault = match shown(probe, outcome) {
            Shown::Found(response) => {
                return decide::found(step, probe, response, ConfirmedBy::Probe);
            }
            Shown::Absent => return absent,
            Shown::Unclear(fault) => fault,
        };
        let retry_at = match &self.state.current {
            Current::Effect(pending) if fault.retryable => {
                let now = self.runtime.clock.now();
                let judged_by = settle::SettleContext::of_read(step, pending.since, now, jitter());
                // What still runs, and a destination without room, only take time.
                let takes_time = fault.is_held_back() || fault.kind == FaultKind::StillRunning;
                let delay = match takes_time {
                    true => judged_by.wait_for_room(fault.retry_after),
                    false => judged_by.delay(pending.probes + 1, fault.retry_after),
                };
                delay.map(|delay| now + delay.to_duration())
            }
            Current::Fresh
            | Current::Reading(_)
            | Current::Effect(_)
            | Current::Waiting { .. }
            | Current::Fan(_)
            | Current::Approving(_)
            | Current::Broken(_) => None,
        };
        unclear(name, fault, retry_at)
    }
}

/// What a probe shows.
pub(super) enum Shown<'a> {
    /// The effect is there; with the destination's answer.
    Found(&'a Value),
    /// The destination looked, and there is nothing.
    Absent,
    /// The probe itself failed.
    Unclear(Fault),
}

/// What the outcome of a probe's request shows.
pub(super) fn shown<'a>(probe: &Probe, outcome: &'a Outcome) -> Shown<'a> {
    match (outcome, &probe.ask) {
        (Outcome::Done(receipt), Ask::Http { found, .. } | Ask::Db { found, .. }) => {
            let scope = semel_flow::Scope::new().with("probe", &receipt.response);
            let ignored = semel_model::SeededBug::ProbeFindingIgnored.is_seeded();
            match found.eval_bool(&scope).map(|found| found && !ignored) {
                Ok(true) => Shown::Found(&receipt.response),
                Ok(false) => Shown::Absent,
                Err(error) => Shown::Unclear(Fault::permanent(error.code(), error.to_string())),
            }
        }
        (Outcome::Done(receipt), Ask::Marker) => Shown::Found(&receipt.response),
        // "Not found" is an answer: the destination looked, and there is nothing.
        (Outcome::Failed(fault), Ask::Http { .. }) if fault.kind == FaultKind::Http(404) => {
            Shown::Absent
        }
        (Outcome::Failed(fault), Ask::Marker) if fault.kind == FaultKind::MarkerAbsent => {
            Shown::Absent
        }
        (Outcome::Failed(fault), _) => Shown::Unclear(fault.clone()),
        // It began, and how it ended is unknown: asking again will not tell.
        (Outcome::InDoubt(doubt), Ask::Marker) => {
            let (code, message) = (doubt.code.clone(), doubt.message.clone());
            Shown::Unclear(Fault::permanent(code, message))
        }
        (Outcome::InDoubt(doubt), _) => Shown::Unclear(passing(doubt)),
    }
}

/// A doubt about something that changes nothing: it may simply be asked again.
fn passing(doubt: &Doubt) -> Fault {
    Fault {
        code: doubt.code.clone(),
        kind: doubt.kind,
        message: doubt.message.clone(),
        retryable: true,
        retry_after: doubt.retry_after,
        looked: Looked::AtNothing,
    }
}

fn unclear(step: String, fault: Fault, retry_at: Option<Timestamp>) -> Event {
    Event::Probed {
        step,
        seen: ProbeFinding::Unclear { fault, retry_at },
    }
}
