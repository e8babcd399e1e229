//! What comes next for a task: its worker answered, was lost, or has not come yet.

use jiff::Timestamp;
use semel_flow::{Action, Step};
use semel_model::effect::{ConfirmedBy, Effect, Pending};
use semel_model::request::{StepRequest, TaskRequest};
use semel_model::task::TaskState;
use semel_model::{Doubt, Fault, FaultKind, Outcome};
use semel_store::tasks::TaskSnapshot;
use serde_json::Value;

use super::{DecideContext, Next, NextAction, by_a_person, confirmed, settle_context};
use crate::settle;
use crate::state::PendingEffect;

/// Says when the time of a task is over.
pub(super) fn set_limit(step: &Step, request: &mut StepRequest, now: Timestamp) {
    if let (StepRequest::Task(request), Action::Task(task)) = (request, &step.action) {
        request.until = task.within.map(|within| now + within.to_duration());
    }
}

/// The next look at a task that is not settled.
pub(super) fn go_on(
    context: &DecideContext<'_>,
    step: &Step,
    pending: &PendingEffect,
    effect: &Effect<Pending>,
    request: &TaskRequest,
) -> Next {
    let seen = context.outside.task(effect.attempt());
    let judged =
        |outcome: &Outcome| settle::settle(settle_context(context, step, pending), effect, outcome);
    let outcome = match seen.map(|seen| seen.state) {
        Some(TaskState::Done) => {
            let result = seen
                .and_then(|seen| part(seen, "result"))
                .unwrap_or_default();
            return Next::Event(confirmed(step, &result, ConfirmedBy::Answer));
        }
        Some(TaskState::Failed) => Outcome::Failed(fault_of(seen)),
        Some(TaskState::Lost) => Outcome::InDoubt(doubt_of(seen)),
        // The worker learns of it with its next heartbeat, and its answer is known then.
        Some(TaskState::Held) => return sleep(request),
        None | Some(TaskState::Open | TaskState::Withdrawn) => {
            match given_up(context, effect, request) {
                Some(fault) if seen.is_some() => Outcome::Failed(fault),
                Some(_) | None => return sleep(request),
            }
        }
    };
    match judged(&outcome) {
        Some(event) => Next::Event(event),
        None => Next::Event(confirmed(step, &Value::Null, ConfirmedBy::Answer)),
    }
}

/// Why no worker needs to take an open task any more.
fn given_up(
    context: &DecideContext<'_>,
    effect: &Effect<Pending>,
    request: &TaskRequest,
) -> Option<Fault> {
    if request.until.is_some_and(|until| context.now >= until) {
        let fault = Fault::permanent("task-timed-out", "no worker took it in time");
        return Some(fault.of(FaultKind::Untaken));
    }
    // An attempt before this one may have happened: Semel finds that out first.
    let cancelled = context.cancel && !effect.doubted();
    cancelled.then(|| by_a_person().of(FaultKind::Untaken))
}

fn sleep(request: &TaskRequest) -> Next {
    Next::Act(NextAction::Sleep {
        until: request.until,
        retrying: false,
    })
}

fn part(seen: &TaskSnapshot, name: &str) -> Option<Value> {
    seen.answer.as_ref()?.get(name).cloned()
}

fn fault_of(seen: Option<&TaskSnapshot>) -> Fault {
    let said = seen.and_then(|seen| part(seen, "fault"));
    let said = said.and_then(|fault| serde_json::from_value(fault).ok());
    let fault: Fault =
        said.unwrap_or_else(|| Fault::permanent("task-failed", "the worker did not say why"));
    // The worker's answer does not decide which kind of fault this is.
    fault.of(FaultKind::Other)
}

fn doubt_of(seen: Option<&TaskSnapshot>) -> Doubt {
    let said = seen.and_then(|seen| part(seen, "doubt"));
    let said = said.and_then(|doubt| serde_json::from_value(doubt).ok());
    said.unwrap_or_else(|| Doubt::new("worker-lost", "the worker fell silent"))
}
