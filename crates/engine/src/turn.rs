//! A turn: carrying one run forward, for as long as this process holds it.
//!
//! Decide, write, act, and again. What an act brought is kept in memory until the next write, which
//! also carries the next intent: the outcome of one effect and the intent of the next go down in
//! one commit. Commit points of an effect: the commit of its intent (before the first byte leaves)
//! and the commit of its outcome.

use std::sync::Arc;

use jiff::civil::Date;
use semel_flow::Step;
use semel_model::effect::{Entry, Witness};
use semel_model::event::{Event, Seen};
use semel_model::kv::Operation;
use semel_model::mistake::Mistake;
use semel_model::request::{Call, HttpRequest};
use semel_model::run::{EndState, Reason};
use semel_model::{EffectId, Fault, Guard, Key, Outcome, RunId, WaitId};
use semel_steps::{Pooling, fault};
use semel_store::evidence::{self, Late};
use semel_store::journal::{Lease, RecordChange, Written};
use semel_store::queue::{self, Taken};
use semel_store::runs::{Stage, Standing};
use semel_store::writer::WriteError;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use crate::catalogue::Release;
use crate::decide::{self, Act, Sight, decide};
use crate::ends::Carried;
use crate::engine::{Inner, chance};
use crate::fold::{Current, RunState};
use crate::lease::{self, Tenure};
use crate::settle;

mod notes;

use notes::Notes;

/// How often a run may be taken without getting anywhere before it is kept away from the workers.
const TAKES_MAX: i16 = 5;

/// One run in this process's hands.
pub struct Turn {
    inner: Arc<Inner>,
    release: Arc<Release>,
    tenure: Arc<Tenure>,
    _permit: OwnedSemaphorePermit,
    carried: Carried,
    run: RunId,
    key: Key,
    born: Date,
    epoch: i64,
    seq: i32,
    takes: i16,
    state: RunState,
    run_view: Value,
    waits_view: Value,
    answers: Vec<(WaitId, Value)>,
    evidence: Vec<(EffectId, Value)>,
    cancel: bool,
    /// Whether the record says that the run is kept for a person.
    recorded_parked: bool,
    notes: Notes,
    /// The answer of an effect that happened and is not on record yet.
    unrecorded: Option<Late>,
    /// Whether the lease was given back or lost, so that nothing is left to hand back.
    settled: bool,
}

/// Why a turn ended without giving its lease back.
#[derive(Debug)]
pub enum Stop {
    /// Another worker has the run.
    Fenced,
    /// The database did not take the write, or this process does not know what it wrote.
    Unsure(String),
}

impl Turn {
    /// A run that this process has just accepted.
    pub(crate) fn begin(
        inner: Arc<Inner>,
        release: Arc<Release>,
        tenure: Arc<Tenure>,
        permit: OwnedSemaphorePermit,
        fresh: Fresh,
    ) -> Self {
        let Fresh {
            run,
            key,
            born,
            state,
        } = fresh;
        let (run_view, waits_view) = views(&inner, &release, run, &key);
        Self {
            carried: inner.ends.carry(run),
            inner,
            release,
            tenure,
            _permit: permit,
            run,
            key,
            born,
            epoch: 1,
            seq: 1,
            takes: 1,
            state,
            run_view,
            waits_view,
            answers: Vec::new(),
            evidence: Vec::new(),
            cancel: false,
            recorded_parked: false,
            notes: Notes::default(),
            unrecorded: None,
            settled: false,
        }
    }

    /// A run that was taken from the queue: its journal is folded.
    pub(crate) async fn load(
        inner: Arc<Inner>,
        taken: Taken,
        tenure: Arc<Tenure>,
        permit: OwnedSemaphorePermit,
    ) -> Result<Self, String> {
        let release = inner
            .catalogue
            .get(taken.release_id)
            .await
            .map_err(|error| error.to_string())?
            .ok_or("its release cannot be read")?;
        let mut state = RunState::new(taken.run);
        for line in &taken.journal {
            let events = line
                .read()
                .map_err(|error| format!("row {}: {error}", line.seq))?;
            for event in &events {
                let guard = release.flow.steps.get(state.cursor).and_then(Step::guard);
                state.apply(event, guard, line.at);
            }
        }
        let fresh = Fresh {
            run: taken.run,
            key: taken.key,
            born: taken.born,
            state,
        };
        let mut turn = Self::begin(inner, release, tenure, permit, fresh);
        turn.epoch = taken.epoch;
        turn.seq = taken.seq;
        turn.takes = taken.takes;
        turn.cancel = taken.cancel;
        turn.recorded_parked = turn.state.parked;
        turn.notes.follow(&turn.state);
        turn.answers = taken
            .answers
            .into_iter()
            .map(|it| (it.wait, it.payload))
            .collect();
        turn.evidence = taken
            .evidence
            .into_iter()
            .map(|it| (it.effect, it.response))
            .collect();
        Ok(turn)
    }

    /// Carries the run on until it ends, sleeps or is lost.
    pub(crate) async fn drive(mut self) {
        let gone = if self.takes > TAKES_MAX {
            let message = format!("taken {} times without progress", self.takes);
            self.park(
                Reason::Quarantined,
                Fault::permanent("no-progress", message),
            )
            .await
        } else {
            self.go().await
        };
        if let Err(stop) = gone {
            self.stopped(stop).await;
        }
    }

    async fn go(&mut self) -> Result<(), Stop> {
        loop {
            if self.inner.stop.is_cancelled() && self.notes.is_empty() {
                return Err(Stop::Unsure("the process is stopping".to_owned()));
            }
            let sight = Sight {
                flow: &self.release.flow,
                run: &self.run_view,
                waits: &self.waits_view,
                now: self.inner.clock.now(),
                chance: chance(),
                cancel: self.cancel,
                answers: &self.answers,
                evidence: &self.evidence,
            };
            let (events, act) = decide(&mut self.state, &sight);
            for event in events {
                self.notes.add(&self.release.flow, self.run, event);
            }
            match act {
                Act::Perform(call) => self.perform(call).await?,
                Act::Read(request) => self.read(&request).await?,
                Act::ReadEntry(operation) => self.read_entry(&operation).await?,
                Act::Probe(request) => self.probe(&request).await?,
                Act::Sleep { until, retrying } => {
                    let stage = if retrying {
                        Stage::Retrying
                    } else {
                        Stage::Waiting
                    };
                    return self
                        .commit(Lease::Return {
                            due_at: until,
                            stage,
                        })
                        .await;
                }
                Act::Park(reason, fault) => return self.park(reason, fault).await,
                Act::End => return self.commit(Lease::End).await,
            }
        }
    }

    /// Writes the intent, makes the attempt, and keeps its outcome for the next write.
    async fn perform(&mut self, call: Call) -> Result<(), Stop> {
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
        let request = match call {
            Call::Http(request) => request,
            Call::Kv(operation) => return self.perform_kv(operation).await,
        };
        let outcome = self
            .send(&request, effect.id(), effect.guard(), effect.attempt())
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

    async fn send(
        &self,
        request: &HttpRequest,
        effect: EffectId,
        guard: Guard,
        attempt: u32,
    ) -> Outcome {
        let key = if attempt > 1 && Mistake::NewKeyOnRetry.is_seeded() {
            EffectId::derive(self.run, &chance().to_string(), "", attempt)
        } else {
            effect
        };
        let pooling = match guard {
            Guard::Review | Guard::Probe => Pooling::Fresh,
            Guard::Transaction | Guard::Key | Guard::Natural | Guard::Repeat => Pooling::Shared,
        };
        self.tenure
            .caller
            .perform(request, Some(key), pooling)
            .await
    }

    /// Only ever reached by a seeded mistake: the outcome was written before the send.
    async fn blind(&self, call: &Call) -> Result<(), Stop> {
        if let Call::Http(request) = call {
            self.tenure
                .caller
                .perform(request, None, Pooling::Fresh)
                .await;
        }
        Ok(())
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

    async fn read(&mut self, request: &HttpRequest) -> Result<(), Stop> {
        self.commit_what_matters().await?;
        let outcome = self
            .tenure
            .caller
            .perform(request, None, Pooling::Shared)
            .await;
        let name = self.step().id.to_string();
        let event = match outcome {
            Outcome::Done(receipt) => {
                match decide::confirmed(self.step(), &receipt.response, Witness::Answer) {
                    Event::Done {
                        step,
                        status,
                        result,
                        ..
                    } => Event::Computed {
                        step,
                        result,
                        status,
                    },
                    other => other,
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

    async fn read_entry(&mut self, operation: &Operation) -> Result<(), Stop> {
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

    async fn probe(&mut self, request: &HttpRequest) -> Result<(), Stop> {
        self.commit_what_matters().await?;
        let outcome = self
            .tenure
            .caller
            .perform(request, None, Pooling::Shared)
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
            _ => None,
        };
        Event::Probed {
            step: name,
            seen: Seen::Unclear { fault, retry_at },
        }
    }

    /// Takes in an event that the world made.
    pub(crate) fn observe(&mut self, event: Event) {
        let guard = self
            .release
            .flow
            .steps
            .get(self.state.cursor)
            .and_then(Step::guard);
        self.state.apply(&event, guard, self.inner.clock.now());
        self.notes.add(&self.release.flow, self.run, event);
    }

    /// Keeps the run for a person.
    pub(crate) async fn park(&mut self, reason: Reason, fault: Fault) -> Result<(), Stop> {
        if !self.recorded_parked {
            tracing::warn!(run.id = %self.run, key = %self.key, code = fault.code,
                "a run is kept for a person: {}", fault.message);
            self.inner.metrics.runs_parked.add_one();
            self.notes.park(reason, &fault);
            self.state.parked = true;
            self.notes
                .add(&self.release.flow, self.run, Event::Parked { fault });
        }
        self.commit(Lease::Return {
            due_at: None,
            stage: Stage::Parked,
        })
        .await
    }

    /// An effect's outcome is written before anything slow is built on it.
    async fn commit_what_matters(&mut self) -> Result<(), Stop> {
        if self.notes.must_be_written() {
            self.commit(Lease::Keep).await
        } else {
            Ok(())
        }
    }

    /// Writes what happened since the last write.
    pub(crate) async fn commit(&mut self, lease: Lease) -> Result<(), Stop> {
        if self.notes.is_empty() {
            return self.commit_nothing(lease).await;
        }
        let (before, after) = self.notes.fault_points();
        if self.recorded_parked && !self.state.parked && lease != Lease::End {
            self.notes.unpark();
        }
        let transition = self.notes.take(self.identity(), lease.clone());
        let end = transition.record.clone();
        fault::point(before, &self.key.text()).await;
        let written = self.inner.record.write(transition).await;
        fault::point(after, &self.key.text()).await;
        match written {
            Ok(Written::Committed { cancel, made }) => {
                self.inner.metrics.transitions.add_one();
                self.seq += 1;
                self.cancel |= cancel;
                self.unrecorded = None;
                self.recorded_parked = self.state.parked;
                self.learn(made)?;
                self.after_commit(&lease, end);
                Ok(())
            }
            Ok(Written::Fenced) => Err(Stop::Fenced),
            Err(
                error @ (WriteError::Unavailable(_) | WriteError::Refused(_) | WriteError::Stopped),
            ) => Err(Stop::Unsure(error.to_string())),
        }
    }

    /// Takes in the event that a write made itself.
    fn learn(&mut self, made: Option<Event>) -> Result<(), Stop> {
        match (self.notes.take_expectation(), made) {
            (true, Some(event)) => {
                let guard = Some(Guard::Transaction);
                self.state.apply(&event, guard, self.inner.clock.now());
                Ok(())
            }
            // The write took effect before its answer was lost: only the journal knows the result.
            (true, None) => Err(Stop::Unsure(
                "the result of a write must be read back".to_owned(),
            )),
            (false, _) => Ok(()),
        }
    }

    fn after_commit(&mut self, lease: &Lease, end: Option<RecordChange>) {
        match lease {
            Lease::Keep => return,
            Lease::Return {
                due_at: Some(due_at),
                ..
            } => lease::expect(&self.inner, *due_at),
            Lease::Return { due_at: None, .. } => {}
            Lease::End => {
                let metrics = &self.inner.metrics;
                match end.as_ref().map(|record| record.state) {
                    Some(semel_model::run::State::Succeeded) => metrics.runs_succeeded.add_one(),
                    Some(semel_model::run::State::Cancelled) => metrics.runs_cancelled.add_one(),
                    _ => metrics.runs_failed.add_one(),
                }
            }
        }
        self.settled = true;
        if let Some(record) = end {
            self.carried.tell(Standing {
                run: self.run,
                state: record.state,
                result: record.result,
                fault: record.fault,
            });
        }
    }

    /// The run was woken for nothing: it sleeps on, and the journal stays as it is.
    async fn commit_nothing(&mut self, lease: Lease) -> Result<(), Stop> {
        let Lease::Return { due_at, stage } = lease else {
            return Ok(());
        };
        let session = self.tenure.session;
        match queue::sleep_on(
            &self.inner.cell,
            self.run,
            self.epoch,
            session,
            due_at,
            stage,
        )
        .await
        {
            Ok(true) => {
                self.settled = true;
                Ok(())
            }
            Ok(false) => Err(Stop::Fenced),
            Err(error) => Err(Stop::Unsure(error.to_string())),
        }
    }

    async fn stopped(&mut self, stop: Stop) {
        match stop {
            Stop::Fenced => {
                self.inner.metrics.fenced.add_one();
                self.settled = true;
                tracing::warn!(run.id = %self.run, key = %self.key, "the lease of a run was lost");
                self.hand_in_evidence().await;
            }
            Stop::Unsure(reason) => {
                tracing::info!(run.id = %self.run, key = %self.key, reason, "a run is handed back");
            }
        }
    }

    /// What the destination answered is known here and nowhere else.
    async fn hand_in_evidence(&mut self) {
        let Some(late) = self.unrecorded.take() else {
            return;
        };
        if let Err(error) = evidence::hand_in(&self.inner.cell, self.run, self.epoch, &late).await {
            tracing::error!(run.id = %self.run, effect.id = %late.effect, %error,
                "a late answer could not be handed in");
        }
        self.inner.wake.notify_one();
    }

    fn identity(&self) -> notes::Identity {
        notes::Identity {
            run: self.run,
            born: self.born,
            namespace_id: self.release.namespace_id,
            holder: self.tenure.session,
            epoch: self.epoch,
            seq: self.seq,
        }
    }

    /// Where the run stands.
    pub(crate) fn state(&self) -> &RunState {
        &self.state
    }

    fn step(&self) -> &Step {
        &self.release.flow.steps[self.state.cursor]
    }
}

impl Drop for Turn {
    /// A turn that ends in any other way than by giving its lease back leaves a run that this
    /// process holds and nobody moves.
    fn drop(&mut self) {
        if !self.settled {
            self.inner.hand_back(self.run, self.tenure.session);
        }
    }
}

/// A run that has just begun, or was folded from its journal.
pub(crate) struct Fresh {
    pub(crate) run: RunId,
    pub(crate) key: Key,
    pub(crate) born: Date,
    pub(crate) state: RunState,
}

/// What expressions see as `run` and `waits`.
fn views(inner: &Inner, release: &Release, run: RunId, key: &Key) -> (Value, Value) {
    let run_view = json!({
        "id": run.to_string(),
        "key": key.text(),
        "flow": release.flow.name.as_str(),
        "release": release.number,
    });
    let mut waits = serde_json::Map::new();
    for step in release.flow.callbacks() {
        let url = crate::waits::address(inner, run, step.id.as_str());
        waits.insert(step.id.to_string(), json!({ "url": url }));
    }
    (run_view, Value::Object(waits))
}

/// How a run ended, as the record keeps it.
pub(crate) fn end_state(state: EndState) -> semel_model::run::State {
    match state {
        EndState::Succeeded => semel_model::run::State::Succeeded,
        EndState::Failed => semel_model::run::State::Failed,
        EndState::Cancelled => semel_model::run::State::Cancelled,
    }
}
