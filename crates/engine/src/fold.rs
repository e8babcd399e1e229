//! Folding: from a run's journal to what is true of it now.
//!
//! Everything that deciding needs is in [`RunState`], and everything in it comes from events. The
//! same journal gives the same state on any worker, at any time.

mod effect;
mod part;
mod reading;
mod resume;

pub use effect::Standing;
pub use part::{Around, Fan, Part};
pub use reading::Reading;
use resume::goes_on;

use std::collections::BTreeMap;

use jiff::Timestamp;
use semel_flow::{Action, Flow, Step};
use semel_model::effect::Licence;
use semel_model::event::{Caller, Event, WaitEnd};
use semel_model::{Fault, RunId, SeededBug, WaitId, gate};
use serde_json::{Map, Value, json};

mod approving;

pub use approving::{Approving, REJECTED};

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
    /// The steps that gave something in this run, in order; a part knows more of them.
    pub gave: Vec<String>,
    /// What it is a part of, where it is one.
    pub part: Option<Part>,
    /// The run that waits for its end.
    pub caller: Option<Caller>,
    /// The place of the step that the run stands at; nothing where none is left.
    pub cursor: Option<usize>,
    /// Where that step stands.
    pub current: Current,
    /// Whether the run goes on after it had ended.
    pub reopened: bool,
    /// How many times each step has asked people.
    pub rounds: BTreeMap<String, u32>,
    /// Whether a person's rejection is what the run stands at.
    pub rejected: bool,
    /// Whether whoever let the run go on last wants people to be asked again.
    pub asks_again: bool,
    /// The operator who resumed it last, where it was one and not a repeated delivery.
    pub resumed_by: Option<String>,
    /// The gates that let the run in.
    pub admitted: Vec<gate::Kind>,
    /// What the journal last said of a gate that the run waits at.
    pub held: Option<Event>,
    /// The places of done steps that can be taken back, in order.
    pub done: Vec<usize>,
    /// Why the run takes back what it did, where it does.
    pub undoing: Option<Fault>,
    /// Who started the run, where that is known.
    pub started_by: Option<String>,
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
    /// Its parts are under way.
    Fan(Fan),
    /// People are asked.
    Approving(Box<Approving>),
    /// It cannot be carried out.
    Broken(Fault),
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
            gave: Vec::new(),
            part: None,
            caller: None,
            cursor: Some(0),
            current: Current::Fresh,
            reopened: false,
            rounds: BTreeMap::new(),
            rejected: false,
            asks_again: false,
            resumed_by: None,
            admitted: Vec::new(),
            held: None,
            done: Vec::new(),
            undoing: None,
            started_by: None,
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
            caller,
            by,
            nominal,
        } = accepted
        else {
            unreachable!("a journal begins with an acceptance");
        };
        self.trigger = match nominal {
            Some(nominal) => json!({ "kind": trigger.as_str(), "nominal": nominal.to_string() }),
            None => json!({ "kind": trigger.as_str() }),
        };
        self.input = input;
        self.headers = headers;
        self.query = query;
        self.caller = caller;
        self.started_by = by;
    }

    /// Takes one event in, written at the instant `at`.
    pub fn apply(&mut self, event: &Event, flow: &Flow, at: Timestamp) {
        match event {
            Event::Accepted { .. } => self.begin(event.clone()),
            Event::Held { .. } | Event::Joined { .. } => self.held = Some(event.clone()),
            Event::Admitted { gate } => {
                self.admitted.push(*gate);
                self.held = None;
            }
            Event::Begun { .. } => {}
            Event::Switched { case, .. } => self.switched(flow, *case),
            Event::FanOpened { .. } => self.current = Current::Fan(Fan::default()),
            Event::FanLoaded { count, repeats, .. } => {
                if let Current::Fan(fan) = &mut self.current {
                    (fan.count, fan.repeats) = (Some(*count), *repeats);
                }
            }
            Event::FanStopped { fault, cancels, .. } => {
                if let Current::Fan(fan) = &mut self.current {
                    fan.stopped = Some((fault.clone(), *cancels));
                }
            }
            Event::FanEnded {
                fault: Some(fault), ..
            } => {
                self.done.extend(self.cursor);
                self.current = Current::Broken(fault.clone());
            }
            Event::FanEnded {
                step,
                result,
                joined,
                fault: None,
            } => self.fan_ended(flow, step, result, joined),
            Event::Started { step, run, wait } => match wait {
                Some(wait) => {
                    self.current = Current::Waiting {
                        wait: *wait,
                        until: None,
                    };
                }
                None => {
                    let result = json!({ "run": run.to_string() });
                    self.finish_step(flow, step, result, Some(&run.to_string()), None);
                }
            },
            Event::Undoing { fault } => {
                self.undoing = Some(fault.clone());
                self.next_step(flow);
            }
            Event::Computed {
                step,
                result,
                status,
                usage,
            } => {
                self.finish_step(flow, step, result.clone(), None, *status);
                if !usage.is_null() {
                    self.steps[step]["usage"] = usage.clone();
                }
            }
            Event::Skipped { .. } => self.next_step(flow),
            Event::Done {
                step,
                external_id,
                status,
                result,
                ..
            } => {
                self.done
                    .extend(self.cursor.filter(|_| self.undoing.is_none()));
                self.finish_step(flow, step, result.clone(), external_id.as_deref(), *status);
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
                let guard = decided.or(self.step(flow).and_then(Step::guard));
                self.intended(*effect, call.as_deref(), *licence, guard, at);
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
                WaitEnd::Elapsed => self.finish_step(flow, step, Value::Null, None, None),
                WaitEnd::TimedOut if self.step(flow).is_some_and(goes_on) => {
                    self.finish_step(flow, step, Value::Null, None, None);
                }
                WaitEnd::TimedOut => {
                    let fault = Fault::permanent("wait-timed-out", "nothing came in time");
                    self.current = Current::Broken(fault);
                }
                WaitEnd::Answered { payload } => {
                    self.finish_step(flow, step, payload.clone(), None, None);
                }
            },
            Event::ApprovalOpened {
                step,
                wait,
                until,
                asked,
            } => {
                self.rounds.insert(step.clone(), asked.round + 1);
                self.current = Current::Approving(Box::new(Approving::of(*wait, *until, asked)));
            }
            Event::ApprovalTold { what, .. } => {
                if let Current::Approving(approving) = &mut self.current {
                    approving.told(*what);
                }
            }
            Event::ApprovalDecided { step, decision } => {
                let end = approving::decided(decision, self.on_reject());
                self.rejected = end.is_err();
                self.approval_ended(flow, step, end);
            }
            Event::ApprovalElapsed { step, policy } => {
                let end = approving::elapsed(*policy, self.on_reject());
                self.approval_ended(flow, step, end);
            }
            Event::Parked { .. } => self.parked = true,
            Event::Resumed { by, asks_again, .. } => {
                self.resumed(by.as_deref(), *asks_again, at);
            }
            Event::Amended {
                step,
                external_id,
                result,
            } => self.amended(step, external_id.as_deref(), result),
            Event::Ended { .. } => self.ended = true,
        }
    }

    /// Whether it waits for something that comes from outside, or for time.
    pub fn is_waiting(&self) -> bool {
        matches!(self.current, Current::Waiting { .. })
    }

    /// The step that the run stands at.
    pub fn step<'f>(&self, flow: &'f Flow) -> Option<&'f Step> {
        flow.steps.get(self.cursor?)
    }

    /// On to what comes next; backwards, where the run takes back what it did.
    fn next_step(&mut self, flow: &Flow) {
        self.cursor = match self.undoing {
            None => self.cursor.and_then(|place| flow.after(place)),
            Some(_) => loop {
                let forward = SeededBug::UndoneInForwardOrder.is_seeded();
                let last = match forward && !self.done.is_empty() {
                    true => Some(self.done.remove(0)),
                    false => self.done.pop(),
                };
                let Some(place) = last else {
                    break None;
                };
                let undo = flow.steps.get(place).and_then(|step| step.undo);
                // Parts take back what they did themselves.
                let inside = Some(place).filter(|place| flow.undoes_inside(*place));
                if let Some(next) = undo.or(inside) {
                    break Some(next);
                }
            },
        };
        self.current = Current::Fresh;
        self.parked = false;
    }

    fn switched(&mut self, flow: &Flow, case: Option<u32>) {
        if let Some(Action::Switch(switch)) = self.step(flow).map(|step| &step.action) {
            let way = case.and_then(|case| switch.cases.get(case as usize));
            self.cursor = way.map_or(switch.otherwise, |case| case.to);
            self.current = Current::Fresh;
        }
    }

    fn finish_step(
        &mut self,
        flow: &Flow,
        step: &str,
        result: Value,
        external_id: Option<&str>,
        status: Option<u16>,
    ) {
        if let Value::Object(steps) = &mut self.steps {
            let view = json!({ "result": result, "external_id": external_id, "status": status });
            steps.insert(step.to_owned(), view);
        }
        self.gave.push(step.to_owned());
        self.next_step(flow);
    }
}
