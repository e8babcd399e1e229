//! Steps that change nothing outside: computed, read, skipped, or impossible to carry out.

use jiff::Timestamp;
use semel_flow::{Action, Flow};
use semel_model::Fault;
use serde_json::Value;

use super::{named, words};
use crate::state::{Current, FoldedRun, NameStanding, Reading, Unfit, fits};

pub(super) fn apply_switched(
    state: &mut FoldedRun,
    flow: &Flow,
    step: &str,
    case: Option<u32>,
) -> Result<(), Unfit> {
    state.must_be_new_at(flow, step)?;
    let Some(Action::Switch(switch)) = state.step(flow).map(|step| &step.action) else {
        return Err(Unfit);
    };
    let way = case.and_then(|case| switch.cases.get(case as usize));
    fits(way.is_some() || case.is_none())?;
    state.cursor = way.map_or(switch.otherwise, |case| case.to);
    state.current = Current::Fresh;
    Ok(())
}

pub(super) fn apply_skipped(state: &mut FoldedRun, flow: &Flow, step: &str) -> Result<(), Unfit> {
    state.must_be_new_at(flow, step)?;
    state.next_step(flow);
    Ok(())
}

pub(super) fn apply_computed(
    state: &mut FoldedRun,
    flow: &Flow,
    step: &str,
    (result, status, usage): (&Value, Option<u16>, &Value),
) -> Result<(), Unfit> {
    state.must_be_new_at(flow, step)?;
    state.finish_step(flow, step, result.clone(), None, status);
    if !usage.is_null() {
        state.steps[step]["usage"] = usage.clone();
    }
    Ok(())
}

pub(super) fn apply_read_failed(
    state: &mut FoldedRun,
    flow: &Flow,
    step: &str,
    (fault, retry_at, at): (&Fault, Option<Timestamp>, Timestamp),
) -> Result<(), Unfit> {
    state.must_be_new_at(flow, step)?;
    let (attempts, since) = state.current.reads_so_far(at);
    state.current = Current::Reading(Reading {
        attempts: attempts + u32::from(!fault.is_held_back()),
        since,
        retry_at,
        fault: fault.clone(),
    });
    Ok(())
}

/// A step that cannot be carried out; without a step, the flow's own result.
pub(super) fn apply_broken(
    state: &mut FoldedRun,
    flow: &Flow,
    step: Option<&str>,
    fault: &Fault,
) -> Result<(), Unfit> {
    match step {
        Some(step) => state.must_be_at(flow, step)?,
        None => {
            state.must_be_live()?;
            fits(state.step(flow).is_none())?;
        }
    }
    match &state.current {
        // A run that was called failed, or a list cannot be read.
        Current::Fresh | Current::Reading(_) | Current::Waiting { .. } | Current::Fan(_) => {}
        Current::Effect(_) | Current::Approving(_) | Current::Broken(_) => return Err(Unfit),
    }
    state.current = Current::Broken(fault.clone());
    if let Some(step) = step {
        named::leave(state, step, NameStanding::Over);
    }
    Ok(())
}

pub(super) fn describe_switched(step: &str, case: Option<u32>) -> String {
    match case {
        Some(case) => format!("{step}: case {} matched", case + 1),
        None => format!("{step}: no case matched"),
    }
}

pub(super) fn describe_skipped(step: &str) -> String {
    format!("{step}: skipped (its condition is false)")
}

pub(super) fn describe_computed(step: &str, result: &Value, usage: &Value) -> String {
    format!("{step}: result {}{}", words::value(result), used(usage))
}

/// What a language model read and wrote, and what that cost.
fn used(usage: &Value) -> String {
    let (tokens, cost) = (&usage["tokens"], &usage["cost"]);
    let mut parts = Vec::new();
    if let (Some(input), Some(output)) = (tokens["input"].as_u64(), tokens["output"].as_u64()) {
        parts.push(format!("{input} tokens in, {output} out"));
    }
    if let Some(cost) = cost.as_f64() {
        parts.push(format!("cost {cost:.6}"));
    }
    match parts.is_empty() {
        true => String::new(),
        false => format!(" ({})", parts.join(", ")),
    }
}

pub(super) fn describe_read_failed(
    step: &str,
    fault: &Fault,
    retry_at: Option<Timestamp>,
) -> String {
    let (fault, retry) = (words::fault(fault), words::retry(retry_at));
    format!("{step}: read failed {fault}{retry}")
}

pub(super) fn describe_broken(step: Option<&str>, fault: &Fault) -> String {
    let place = step.unwrap_or("result");
    format!("{place}: failed {}", words::fault(fault))
}
