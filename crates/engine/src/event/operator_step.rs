//! One step that an operator has performed after the end of its run.

use semel_flow::Flow;
use semel_model::event::{OperatorStep, StepVerb};

use crate::state::{Current, FoldedRun, Unfit, fits};

/// The run stands at one step again, and ends as it had ended once that is settled. It passed its
/// gates, and does not wait for them again.
pub(super) fn apply(state: &mut FoldedRun, flow: &Flow, asked: &OperatorStep) -> Result<(), Unfit> {
    fits(state.ended)?;
    let place = flow
        .steps
        .iter()
        .position(|step| step.id.as_str() == asked.step);
    let place = place.ok_or(Unfit)?;
    let place = match asked.verb {
        StepVerb::Undo => flow.steps[place].undo.ok_or(Unfit)?,
        StepVerb::Redo => {
            *state.redone.entry(asked.step.clone()).or_default() += 1;
            place
        }
    };
    for undo in state.undos.values_mut() {
        undo.resumed(true);
    }
    state.ended = false;
    state.stopped = false;
    state.undoing = None;
    state.cursor = Some(place);
    state.current = Current::Fresh;
    state.operator_step = Some(Box::new(asked.clone()));
    Ok(())
}

pub(super) fn describe(asked: &OperatorStep) -> String {
    let OperatorStep {
        verb,
        step,
        by,
        reason,
        ..
    } = asked;
    let what = match verb {
        StepVerb::Undo => "undo it",
        StepVerb::Redo => "perform it again, under a new key",
    };
    format!("{step}: {by} asked to {what}: {reason}")
}
