//! Ends: with a result, with a fault, by an operator, and after compensation.

use semel_model::Fault;
use semel_model::event::{Event, OperatorStep};
use semel_model::run::{EndState, StopReason};
use serde_json::Value;

use super::{DecideContext, Next, NextAction, scope};
use crate::state::{ChildPosition, Current, FoldedRun};

/// The run has done all its steps.
pub(super) fn finish(state: &FoldedRun, context: &DecideContext<'_>) -> Event {
    if let Some(asked) = &state.operator_step {
        return as_before(asked);
    }
    if let Some(fault) = &state.undoing {
        return failed(fault.clone());
    }
    if let Current::Broken(fault) = &state.current {
        return failed(fault.clone());
    }
    let result = match (&state.child_of, &context.flow.result) {
        (Some(child), _) => Ok(child_result(state, child)),
        (None, Some(expr)) => expr.eval(&scope(state, context)),
        (None, None) => Ok(Value::Null),
    };
    match result {
        Ok(result) => succeeded(result),
        Err(error) => Event::Broken {
            step: None,
            fault: Fault::permanent(error.code(), error.to_string()),
        },
    }
}

/// The result of a child run: of an item, its last step's result; of a branch, all its steps'.
fn child_result(state: &FoldedRun, child: &ChildPosition) -> Value {
    if child.item.is_some() {
        let last = state.gave.last();
        return last.map_or(Value::Null, |step| state.steps[step]["result"].clone());
    }
    let given = state.gave.iter();
    let views = given.map(|step| (step.clone(), state.steps[step].clone()));
    Value::Object(views.collect())
}

pub(super) fn succeeded(result: Value) -> Event {
    Event::Ended {
        state: EndState::Succeeded,
        result,
        fault: None,
    }
}

/// The run fails: its effects are undone first, where the flow says so. An operator decides about
/// what cannot be undone.
pub(super) fn fail(state: &FoldedRun, context: &DecideContext<'_>, fault: &Fault) -> Next {
    if let Some(asked) = &state.operator_step {
        return Next::Event(as_before(asked));
    }
    if state.undoing.is_some() {
        return Next::Act(NextAction::StopRun(StopReason::NeedsReview, fault.clone()));
    }
    let flow = context.flow;
    let undoable = |place: &usize| flow.steps[*place].undo.is_some() || flow.undoes_inside(*place);
    if context.flow.undoes && state.done.iter().any(undoable) {
        return Next::Event(Event::Undoing {
            fault: fault.clone(),
        });
    }
    Next::Event(failed(fault.clone()))
}

/// The end that a run had before an operator had one step of it performed.
fn as_before(asked: &OperatorStep) -> Event {
    Event::Ended {
        state: asked.state,
        result: asked.result.clone(),
        fault: asked.fault.clone(),
    }
}

fn failed(fault: Fault) -> Event {
    Event::Ended {
        state: EndState::Failed,
        result: Value::Null,
        fault: Some(fault),
    }
}

pub(super) fn by_a_person() -> Fault {
    Fault::permanent("cancelled", "the run was cancelled")
}

pub(super) fn cancelled() -> Event {
    Event::Ended {
        state: EndState::Cancelled,
        result: Value::Null,
        fault: Some(by_a_person()),
    }
}
