//! Waits: how they begin, and what ends them.

use jiff::Timestamp;
use semel_flow::release::{RenderError, WaitStep};
use semel_flow::{Action, Scope, Step};
use semel_model::event::{Event, WaitEnd};
use semel_model::run::EndState;
use semel_model::{Fault, Span, WaitId};
use serde_json::{Value, json};

use super::{DecideContext, Next, NextAction};
use crate::state::FoldedRun;

/// The wait that a step begins.
pub(super) fn open(
    state: &FoldedRun,
    context: &DecideContext<'_>,
    step: &Step,
    wait: &WaitStep,
    scope: &Scope<'_>,
) -> Result<Event, RenderError> {
    let later = |span: Span| context.now + span.to_duration();
    let until = match wait {
        WaitStep::Timer(span) | WaitStep::Callback { within: span, .. } => Some(later(*span)),
        WaitStep::Until(expr) => Some(expr.eval_instant(scope)?),
        WaitStep::Event { within, .. } => within.map(later),
    };
    let about = match wait {
        WaitStep::Event {
            topic: Some(topic), ..
        } => Some(topic.value.eval(scope)?),
        WaitStep::Event { topic: None, .. }
        | WaitStep::Timer(_)
        | WaitStep::Callback { .. }
        | WaitStep::Until(_) => None,
    };
    Ok(Event::WaitOpened {
        step: step.id.to_string(),
        wait: WaitId::derive(state.first(), step.id.as_str()),
        until,
        about,
    })
}

/// What a run that waits continues with.
pub(super) fn wake(
    context: &DecideContext<'_>,
    step: &Step,
    wait: WaitId,
    until: Option<Timestamp>,
) -> Next {
    let name = step.id.to_string();
    if let Some((_, payload)) = context
        .answers
        .iter()
        .find(|(answered, _)| *answered == wait)
    {
        return Next::Event(answered(step, payload));
    }
    match until {
        Some(until) if context.now >= until => {
            let by_time = matches!(
                &step.action,
                Action::Wait(WaitStep::Timer(_) | WaitStep::Until(_))
            );
            let how = match by_time {
                true => WaitEnd::Elapsed,
                false => WaitEnd::TimedOut,
            };
            Next::Event(Event::WaitEnded { step: name, how })
        }
        until => Next::Act(NextAction::Sleep {
            until,
            retrying: false,
        }),
    }
}

/// What completed a wait: a callback's payload, or the end of a run that was called.
fn answered(step: &Step, payload: &Value) -> Event {
    let name = step.id.to_string();
    if !matches!(step.action, Action::Call(_)) {
        let how = WaitEnd::Answered {
            payload: payload.clone(),
        };
        return Event::WaitEnded { step: name, how };
    }
    let part = |name: &str| payload.get(name).cloned().unwrap_or_default();
    if part("state") == json!(EndState::Succeeded) {
        let how = WaitEnd::Answered {
            payload: part("result"),
        };
        return Event::WaitEnded { step: name, how };
    }
    let fault: Option<Fault> = serde_json::from_value(part("fault")).ok();
    let why = fault.map_or_else(|| "it gave no reason".to_owned(), |fault| fault.message);
    let (run, state) = (part("run"), part("state"));
    let words = |value: &Value| value.as_str().unwrap_or("unknown").to_owned();
    let message = format!("{} ended as {}: {why}", words(&run), words(&state));
    Event::Broken {
        step: Some(name),
        fault: Fault::permanent("call-failed", message),
    }
}
