//! Deciding: what comes next, from what is true now. Pure: no I/O and no clock of its own.
//!
//! [`decide`] goes through everything that needs no world (conditions, functions, intents, ends of
//! waits) and stops at the first thing that does. What it went through comes back as events; the
//! turn writes them down and then acts.

use jiff::Timestamp;
use semel_flow::release::{HttpGuard, Probe, Wait};
use semel_flow::{Action, EvalError, Flow, Scope, Step};
use semel_model::effect::{Entry, Licence, Witness};
use semel_model::event::{Event, Plan, Seen, WaitEnd};
use semel_model::kv::Operation;
use semel_model::request::{Call, HttpRequest};
use semel_model::run::{EndState, Reason};
use semel_model::{EffectId, Fault, WaitId};
use serde_json::Value;

mod answer;

pub use answer::{confirmed, found, read_result};

use crate::fold::{Current, RunState, Standing};
use crate::settle::{self, Bench};

/// What the decision may look at besides the journal.
#[derive(Clone, Debug)]
pub struct Sight<'a> {
    /// The release that the run is on.
    pub flow: &'a Flow,
    /// What expressions see as `run`.
    pub run: &'a Value,
    /// What expressions see as `waits`.
    pub waits: &'a Value,
    /// The database's time.
    pub now: Timestamp,
    /// A fraction from 0 to 1, for jitter.
    pub chance: f64,
    /// Whether a person asked for the run's end.
    pub cancel: bool,
    /// Callbacks that came, by wait.
    pub answers: &'a [(WaitId, Value)],
    /// Answers that lost workers handed in, by effect.
    pub evidence: &'a [(EffectId, Value)],
}

/// What the world is asked to do next.
#[derive(Clone, Debug)]
pub enum Act {
    /// Perform the effect whose intent is among the events, once they are committed.
    Perform(Call),
    /// Make a read; it may be made again.
    Read(HttpRequest),
    /// Read a shared entry.
    ReadEntry(Operation),
    /// Ask whether an effect in doubt happened.
    Probe(HttpRequest),
    /// Sleep.
    Sleep {
        /// Until then, or until somebody wakes the run.
        until: Option<Timestamp>,
        /// Whether it rests before another attempt, and does not wait for something.
        retrying: bool,
    },
    /// Keep the run for a person.
    Park(Reason, Fault),
    /// The run has ended; its end is among the events.
    End,
}

/// Goes on until the world is needed. The events that led there are applied to `state`.
pub fn decide(state: &mut RunState, sight: &Sight<'_>) -> (Vec<Event>, Act) {
    let mut events = Vec::new();
    loop {
        match next(state, sight) {
            Next::Event(event) => {
                let guard = sight.flow.steps.get(state.cursor).and_then(Step::guard);
                let intended = matches!(event, Event::Intended { .. });
                let ended = matches!(event, Event::Ended { .. });
                state.apply(&event, guard, sight.now);
                events.push(event);
                if ended {
                    return (events, Act::End);
                }
                if intended && let Current::Effect(standing) = &state.current {
                    return (events, Act::Perform(standing.call.clone()));
                }
            }
            Next::Act(act) => return (events, act),
        }
    }
}

enum Next {
    Event(Event),
    Act(Act),
}

fn next(state: &RunState, sight: &Sight<'_>) -> Next {
    let Some(step) = sight.flow.steps.get(state.cursor) else {
        return Next::Event(finish(state, sight));
    };
    match &state.current {
        Current::Fresh if sight.cancel => Next::Event(cancelled()),
        Current::Fresh => begin(state, sight, step).unwrap_or_else(|error| broken(step, &error)),
        Current::Broken(fault) => Next::Event(failed(fault.clone())),
        Current::Reading(_) | Current::Waiting { .. } if sight.cancel => Next::Event(cancelled()),
        Current::Reading(reading) => match reading.retry_at {
            Some(at) if sight.now < at => sleep(at, true),
            Some(_) => begin(state, sight, step).unwrap_or_else(|error| broken(step, &error)),
            None if reading.fault.retryable => {
                Next::Act(Act::Park(Reason::NeedsReview, reading.fault.clone()))
            }
            None => Next::Event(failed(reading.fault.clone())),
        },
        Current::Effect(standing) => go_on(state, sight, step, standing),
        Current::Waiting { wait, until } => wake(sight, step, *wait, *until),
    }
}

/// The first look at a step.
fn begin(state: &RunState, sight: &Sight<'_>, step: &Step) -> Result<Next, EvalError> {
    let scope = scope(state, sight);
    if let Some(condition) = &step.condition
        && !condition.eval_bool(&scope)?
    {
        return Ok(Next::Event(Event::Skipped {
            step: step.id.to_string(),
        }));
    }
    Ok(match &step.action {
        Action::Function(expr) => {
            let result = expr.eval(&scope)?;
            Next::Event(Event::Computed {
                step: step.id.to_string(),
                result,
                status: None,
            })
        }
        Action::Http(http) if http.guard == HttpGuard::Read => {
            Next::Act(Act::Read(http.request.render(&scope)?))
        }
        Action::Http(http) => intend(state, step, Call::Http(http.request.render(&scope)?)),
        Action::Kv(kv) if kv.guard().is_none() => Next::Act(Act::ReadEntry(kv.render(&scope)?)),
        Action::Kv(kv) => intend(state, step, Call::Kv(kv.render(&scope)?)),
        Action::Wait(wait) => {
            let span = match wait {
                Wait::Timer(span) | Wait::Callback { within: span } => *span,
            };
            Next::Event(Event::WaitOpened {
                step: step.id.to_string(),
                wait: WaitId::derive(state.run, step.id.as_str()),
                until: Some(sight.now + span.to_duration()),
            })
        }
    })
}

fn intend(state: &RunState, step: &Step, call: Call) -> Next {
    Next::Event(Event::Intended {
        step: step.id.to_string(),
        effect: EffectId::derive(state.run, step.id.as_str(), "", 0),
        attempt: 1,
        call: Some(call),
        licence: None,
    })
}

/// The next look at an effect that is not settled.
fn go_on(state: &RunState, sight: &Sight<'_>, step: &Step, standing: &Standing) -> Next {
    let again = |licence| {
        Next::Event(Event::Intended {
            step: step.id.to_string(),
            effect: standing.entry.id(),
            attempt: standing.entry.attempt() + 1,
            call: None,
            licence,
        })
    };
    match &standing.entry {
        // Whoever wrote this intent is not the one who reads it: the outcome is not known.
        Entry::Pending(effect) => {
            Next::Event(settle::found_pending(bench(sight, step, standing), effect))
        }
        Entry::Retrying(_) if sight.cancel => Next::Event(give_up(step)),
        Entry::Retrying(effect) => match standing.retry_at {
            Some(at) if sight.now < at => sleep(at, true),
            Some(_) => again(None),
            None => Next::Act(Act::Park(Reason::NeedsReview, effect.state().fault.clone())),
        },
        Entry::InDoubt(effect) => {
            if let Some((_, response)) = sight.evidence.iter().find(|(id, _)| *id == effect.id()) {
                return Next::Event(confirmed(step, response, Witness::Evidence));
            }
            match (standing.licence, &standing.plan) {
                // It is known not to be there, and the author's attempts are used up.
                (Some(Licence::Absent), _) if effect.attempt() >= step.retry.attempts => {
                    let doubt = &effect.state().doubt;
                    let fault = Fault::permanent(doubt.code.clone(), doubt.message.clone());
                    Next::Event(Event::Failed {
                        step: step.id.to_string(),
                        fault,
                        retry_at: None,
                    })
                }
                (Some(licence), _) => again(Some(licence)),
                (None, Some(Plan::Repeat { at, licence })) if sight.now >= *at => {
                    again(Some(*licence))
                }
                (None, Some(Plan::Repeat { at, .. })) => sleep(*at, true),
                (None, Some(Plan::Probe { at })) if sight.now < *at => sleep(*at, true),
                (None, Some(Plan::Probe { .. })) => probe(state, sight, step),
                (None, Some(Plan::Review) | None) => {
                    let doubt = &effect.state().doubt;
                    let fault = Fault::passing(doubt.code.clone(), doubt.message.clone());
                    Next::Act(Act::Park(Reason::InDoubt, fault))
                }
            }
        }
        Entry::Failed(_) if sight.cancel => Next::Event(cancelled()),
        Entry::Failed(effect) => Next::Event(failed(effect.state().fault.clone())),
        Entry::Done(_) => unreachable!("a done effect moves the run to its next step"),
    }
}

fn probe(state: &RunState, sight: &Sight<'_>, step: &Step) -> Next {
    let rendered = probe_of(step).map(|probe| probe.request.render(&scope(state, sight)));
    let fault = match rendered {
        Some(Ok(request)) => return Next::Act(Act::Probe(request)),
        Some(Err(error)) => Fault::permanent(error.code(), error.to_string()),
        None => Fault::permanent("no-probe", "the step has no probe"),
    };
    // A probe that cannot be made leaves the doubt to a person.
    let seen = Seen::Unclear {
        fault,
        retry_at: None,
    };
    Next::Event(Event::Probed {
        step: step.id.to_string(),
        seen,
    })
}

/// The probe of a step that has one.
pub fn probe_of(step: &Step) -> Option<&Probe> {
    match &step.action {
        Action::Http(http) => match &http.guard {
            HttpGuard::Probe(probe) => Some(probe),
            HttpGuard::Read
            | HttpGuard::Key { .. }
            | HttpGuard::Natural
            | HttpGuard::Review
            | HttpGuard::Repeat { .. } => None,
        },
        Action::Function(_) | Action::Kv(_) | Action::Wait(_) => None,
    }
}

fn wake(sight: &Sight<'_>, step: &Step, wait: WaitId, until: Option<Timestamp>) -> Next {
    let name = step.id.to_string();
    if let Some((_, payload)) = sight.answers.iter().find(|(answered, _)| *answered == wait) {
        let how = WaitEnd::Answered {
            payload: payload.clone(),
        };
        return Next::Event(Event::WaitEnded { step: name, how });
    }
    match until {
        Some(until) if sight.now >= until => match &step.action {
            Action::Wait(Wait::Callback { .. }) => Next::Event(Event::WaitEnded {
                step: name,
                how: WaitEnd::TimedOut,
            }),
            Action::Wait(Wait::Timer(_))
            | Action::Http(_)
            | Action::Function(_)
            | Action::Kv(_) => Next::Event(Event::WaitEnded {
                step: name,
                how: WaitEnd::Elapsed,
            }),
        },
        until => Next::Act(Act::Sleep {
            until,
            retrying: false,
        }),
    }
}

/// All steps are behind the run.
fn finish(state: &RunState, sight: &Sight<'_>) -> Event {
    if let Current::Broken(fault) = &state.current {
        return failed(fault.clone());
    }
    let result = match &sight.flow.result {
        Some(expr) => expr.eval(&scope(state, sight)),
        None => Ok(Value::Null),
    };
    match result {
        Ok(result) => Event::Ended {
            state: EndState::Succeeded,
            result,
            fault: None,
        },
        Err(error) => Event::Broken {
            step: None,
            fault: Fault::permanent(error.code(), error.to_string()),
        },
    }
}

fn failed(fault: Fault) -> Event {
    Event::Ended {
        state: EndState::Failed,
        result: Value::Null,
        fault: Some(fault),
    }
}

fn cancelled() -> Event {
    let fault = Fault::permanent("cancelled", "a person asked for the end of this run");
    Event::Ended {
        state: EndState::Cancelled,
        result: Value::Null,
        fault: Some(fault),
    }
}

fn give_up(step: &Step) -> Event {
    let fault = Fault::permanent("cancelled", "a person asked for the end of this run");
    Event::Failed {
        step: step.id.to_string(),
        fault,
        retry_at: None,
    }
}

fn broken(step: &Step, error: &EvalError) -> Next {
    Next::Event(Event::Broken {
        step: Some(step.id.to_string()),
        fault: Fault::permanent(error.code(), error.to_string()),
    })
}

fn sleep(until: Timestamp, retrying: bool) -> Next {
    Next::Act(Act::Sleep {
        until: Some(until),
        retrying,
    })
}

/// What the current attempt is judged by.
pub fn bench<'a>(sight: &Sight<'a>, step: &'a Step, standing: &Standing) -> Bench<'a> {
    Bench {
        step,
        since: standing.since,
        now: sight.now,
        chance: sight.chance,
    }
}

/// What the step's expressions can see.
fn scope<'a>(state: &'a RunState, sight: &Sight<'a>) -> Scope<'a> {
    Scope::new()
        .with("input", &state.input)
        .with("headers", &state.headers)
        .with("query", &state.query)
        .with("trigger", &state.trigger)
        .with("steps", &state.steps)
        .with("waits", sight.waits)
        .with("run", sight.run)
        .with("env", &sight.flow.env)
}
