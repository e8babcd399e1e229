//! Folding: from a run's journal to what is true of it now.
//!
//! Everything that deciding needs is in [`RunState`], and everything in it comes from events. The
//! same journal gives the same state on any worker, at any time.

use jiff::Timestamp;
use semel_model::effect::{Effect, Entry, Licence, Pending};
use semel_model::event::{Event, Plan, Seen, WaitEnd};
use semel_model::request::Call;
use semel_model::{EffectId, Fault, Guard, RunId, Span, WaitId, gate};
use serde_json::{Map, Value, json};

/// What is true of a run.
#[derive(Clone, Debug)]
pub struct RunState {
    /// The run.
    pub run: RunId,
    /// What expressions see as `input`.
    pub input: Value,
    /// What expressions see as `headers`.
    pub headers: Value,
    /// What expressions see as `query`.
    pub query: Value,
    /// What expressions see as `trigger`.
    pub trigger: Value,
    /// What expressions see as `steps`: `{result, external_id, status}` by step.
    pub steps: Value,
    /// The index of the step that the run stands at.
    pub cursor: usize,
    /// Where that step stands.
    pub current: Current,
    /// The gates that let the run in.
    pub admitted: Vec<gate::Kind>,
    /// What the journal last said of a gate that the run waits at.
    pub held: Option<Event>,
    /// Whether the run is kept for a person.
    pub parked: bool,
    /// Whether the run has ended.
    pub ended: bool,
}

/// Where the current step stands.
#[derive(Clone, Debug)]
pub enum Current {
    /// Not begun.
    Fresh,
    /// A read that did not succeed yet.
    Reading(Reading),
    /// An effect that is not settled.
    Effect(Box<Standing>),
    /// Waiting.
    Waiting {
        /// For this.
        wait: WaitId,
        /// Until then, at the latest.
        until: Option<Timestamp>,
    },
    /// It cannot be carried out.
    Broken(Fault),
}

/// A read that did not succeed yet.
#[derive(Clone, Debug)]
pub struct Reading {
    /// How many attempts were made.
    pub attempts: u32,
    /// When the first one was made.
    pub since: Timestamp,
    /// When it is tried again; never, when absent.
    pub retry_at: Option<Timestamp>,
    /// Why it did not succeed.
    pub fault: Fault,
}

/// An effect that is not settled.
#[derive(Clone, Debug)]
pub struct Standing {
    /// Its entry of the ledger.
    pub entry: Entry,
    /// What goes out, the same on every attempt.
    pub call: Call,
    /// How long the destination remembers the key, where its connection said so at the intent.
    pub window: Option<Span>,
    /// When its first intent was written: the destination's key window counts from here.
    pub since: Timestamp,
    /// When the next attempt may be made, where it rests; never, when absent.
    pub retry_at: Option<Timestamp>,
    /// How its doubt is settled, where it is in doubt.
    pub plan: Option<Plan>,
    /// How many probes were made since the doubt began.
    pub probes: u32,
    /// How many attempts the destination's limits held back: they do not count.
    pub held_back: u32,
    /// What allows the next attempt, where something does already.
    pub licence: Option<Licence>,
}

/// Events that do not follow on each other: the journal is not one that Semel wrote.
#[derive(Debug, thiserror::Error)]
#[error("the journal cannot be followed at row {seq}: {reason}")]
pub struct FoldError {
    /// The row.
    pub seq: i32,
    /// What is wrong.
    pub reason: String,
}

impl RunState {
    /// A run of which nothing is known yet.
    pub fn new(run: RunId) -> Self {
        Self {
            run,
            input: Value::Null,
            headers: Value::Null,
            query: Value::Null,
            trigger: Value::Null,
            steps: Value::Object(Map::new()),
            cursor: 0,
            current: Current::Fresh,
            admitted: Vec::new(),
            held: None,
            parked: false,
            ended: false,
        }
    }

    /// Takes the first event in, and keeps what it brings.
    pub fn begin(&mut self, accepted: Event) {
        let Event::Accepted {
            trigger,
            input,
            headers,
            query,
        } = accepted
        else {
            unreachable!("a journal begins with an acceptance");
        };
        self.trigger = json!({ "kind": trigger.as_str() });
        self.input = input;
        self.headers = headers;
        self.query = query;
    }

    /// Takes one event in. `guard` is the current step's, `at` the instant it was written.
    pub fn apply(&mut self, event: &Event, guard: Option<Guard>, at: Timestamp) {
        match event {
            Event::Accepted { .. } => self.begin(event.clone()),
            Event::Held { .. } | Event::Joined { .. } => self.held = Some(event.clone()),
            Event::Admitted { gate } => {
                self.admitted.push(*gate);
                self.held = None;
            }
            Event::Computed {
                step,
                result,
                status,
                usage,
            } => {
                self.finish_step(step, result.clone(), None, *status);
                if !usage.is_null() {
                    self.steps[step]["usage"] = usage.clone();
                }
            }
            Event::Skipped { .. } => self.next_step(),
            Event::Done {
                step,
                external_id,
                status,
                result,
                ..
            } => {
                self.finish_step(step, result.clone(), external_id.as_deref(), *status);
            }
            Event::ReadFailed {
                fault, retry_at, ..
            } => self.read_failed(fault, *retry_at, at),
            Event::Broken { fault, .. } => self.current = Current::Broken(fault.clone()),
            Event::Intended {
                effect,
                call,
                licence,
                guard: decided,
                window,
                ..
            } => {
                self.intended(*effect, call.as_deref(), *licence, decided.or(guard), at);
                if let (Current::Effect(standing), Some(window)) = (&mut self.current, window) {
                    standing.window = Some(*window);
                }
            }
            Event::Failed {
                fault, retry_at, ..
            } => self.failed(fault, *retry_at),
            Event::Doubted { doubt, plan, .. } => self.doubted(doubt, plan),
            Event::Probed { seen, .. } => self.probed(seen),
            Event::Licensed { .. } => {
                if let Current::Effect(standing) = &mut self.current {
                    standing.licence = Some(Licence::Person);
                }
                self.parked = false;
            }
            Event::WaitOpened { wait, until, .. } => {
                self.current = Current::Waiting {
                    wait: *wait,
                    until: *until,
                };
            }
            Event::WaitEnded { step, how } => match how {
                WaitEnd::Elapsed => self.finish_step(step, Value::Null, None, None),
                WaitEnd::TimedOut => {
                    let fault = Fault::permanent("wait-timed-out", "no callback came in time");
                    self.current = Current::Broken(fault);
                }
                WaitEnd::Answered { payload } => {
                    self.finish_step(step, payload.clone(), None, None);
                }
            },
            Event::Parked { .. } => self.parked = true,
            Event::Resumed { .. } => self.resumed(at),
            Event::Ended { .. } => self.ended = true,
        }
    }

    fn next_step(&mut self) {
        self.cursor += 1;
        self.current = Current::Fresh;
        self.parked = false;
    }

    fn finish_step(
        &mut self,
        step: &str,
        result: Value,
        external_id: Option<&str>,
        status: Option<u16>,
    ) {
        if let Value::Object(steps) = &mut self.steps {
            let view = json!({ "result": result, "external_id": external_id, "status": status });
            steps.insert(step.to_owned(), view);
        }
        self.next_step();
    }

    fn read_failed(&mut self, fault: &Fault, retry_at: Option<Timestamp>, at: Timestamp) {
        let (attempts, since) = match &self.current {
            Current::Reading(reading) => (reading.attempts, reading.since),
            Current::Fresh | Current::Effect(_) | Current::Waiting { .. } | Current::Broken(_) => {
                (0, at)
            }
        };
        let fault = fault.clone();
        self.current = Current::Reading(Reading {
            attempts: attempts + u32::from(!fault.is_held_back()),
            since,
            retry_at,
            fault,
        });
    }

    fn intended(
        &mut self,
        effect: EffectId,
        call: Option<&Call>,
        licence: Option<Licence>,
        guard: Option<Guard>,
        at: Timestamp,
    ) {
        match (std::mem::replace(&mut self.current, Current::Fresh), call) {
            (Current::Effect(mut standing), _) => {
                standing.entry = again(standing.entry, licence);
                standing.retry_at = None;
                standing.plan = None;
                standing.licence = None;
                self.current = Current::Effect(standing);
            }
            (_, Some(call)) => {
                let guard = guard.unwrap_or(Guard::Review);
                self.current = Current::Effect(Box::new(Standing {
                    entry: Entry::Pending(Effect::<Pending>::intend(effect, guard)),
                    call: call.clone(),
                    window: None,
                    since: at,
                    retry_at: None,
                    plan: None,
                    probes: 0,
                    held_back: 0,
                    licence: None,
                }));
            }
            (_, None) => unreachable!("the first intent of {effect} carries its call"),
        }
        self.parked = false;
    }

    fn failed(&mut self, fault: &Fault, retry_at: Option<Timestamp>) {
        let Current::Effect(standing) = &mut self.current else {
            return;
        };
        standing.entry = match standing.entry.clone() {
            Entry::Pending(effect) if fault.retryable => {
                Entry::Retrying(effect.retrying(fault.clone()))
            }
            Entry::Pending(effect) => Entry::Failed(effect.failed(fault.clone())),
            Entry::Retrying(effect) => Entry::Failed(effect.given_up()),
            Entry::InDoubt(effect) => Entry::Failed(effect.refuted(fault.clone())),
            settled @ (Entry::Done(_) | Entry::Failed(_)) => settled,
        };
        standing.retry_at = retry_at;
        standing.held_back += u32::from(fault.is_held_back());
        self.parked = false;
    }

    fn doubted(&mut self, doubt: &semel_model::Doubt, plan: &Plan) {
        let Current::Effect(standing) = &mut self.current else {
            return;
        };
        standing.entry = match standing.entry.clone() {
            Entry::Pending(effect) => Entry::InDoubt(effect.in_doubt(doubt.clone())),
            other
            @ (Entry::Retrying(_) | Entry::Done(_) | Entry::Failed(_) | Entry::InDoubt(_)) => other,
        };
        standing.plan = Some(plan.clone());
        standing.probes = 0;
    }

    fn probed(&mut self, seen: &Seen) {
        let Current::Effect(standing) = &mut self.current else {
            return;
        };
        standing.probes += 1;
        match seen {
            Seen::Absent => standing.licence = Some(Licence::Absent),
            Seen::Unclear {
                retry_at: Some(at), ..
            } => {
                standing.plan = Some(Plan::Probe { at: *at });
            }
            Seen::Unclear { retry_at: None, .. } => standing.plan = Some(Plan::Review),
        }
    }

    /// A person lets the run go on: what had given up may be tried again at once.
    fn resumed(&mut self, at: Timestamp) {
        self.parked = false;
        match &mut self.current {
            Current::Effect(standing) => standing.retry_at = Some(at),
            Current::Reading(reading) => {
                reading.retry_at = Some(at);
                reading.attempts = 0;
                reading.since = at;
            }
            Current::Fresh | Current::Waiting { .. } | Current::Broken(_) => {}
        }
    }
}

/// The next attempt at an entry.
fn again(entry: Entry, licence: Option<Licence>) -> Entry {
    match (entry, licence) {
        (Entry::Retrying(effect), _) => Entry::Pending(effect.again()),
        (Entry::InDoubt(effect), Some(licence)) => Entry::Pending(effect.repeated(licence)),
        (entry, _) => entry,
    }
}
