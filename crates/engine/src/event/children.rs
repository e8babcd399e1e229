//! Child runs: items and branches of a step, and runs of other flows.

use semel_flow::{Action, Flow};
use semel_model::event::{ChildBegun, Event};
use semel_model::{Fault, RunId, WaitId};
use semel_store::journal::WaitChange;
use serde_json::{Value, json};

use super::changes::{Before, RowChanges};
use super::{effect, words};
use crate::state::{ChildPosition, Current, EnclosingRun, Fan, FoldedRun, Misfit, Unfit, fits};

/// The state of a child run at its beginning, which includes what its parent knew.
pub fn begin_child(
    run: RunId,
    parent: &FoldedRun,
    begun: Event,
    flow: &Flow,
) -> Result<FoldedRun, Misfit> {
    let event = begun.name();
    begin(run, parent, begun, flow).map_err(|Unfit| Misfit {
        event,
        state: "has no such step".to_owned(),
    })
}

fn begin(run: RunId, parent: &FoldedRun, begun: Event, flow: &Flow) -> Result<FoldedRun, Unfit> {
    let Event::Begun(begun) = begun else {
        return Err(Unfit);
    };
    let ChildBegun {
        step,
        index,
        item,
        first: first_run,
        last,
        ..
    } = begun;
    let action = flow.find_step(&step).map(|step| &step.action);
    let (first, item) = if let Some(Action::Foreach(each)) = action {
        (each.first, Some((each.name.clone(), item)))
    } else if let Some(Action::Parallel(parallel)) = action {
        let branch = parallel.branches.get(index as usize);
        (*branch.ok_or(Unfit)?, None)
    } else {
        return Err(Unfit);
    };
    let outer = parent.child_of.as_ref();
    let mut around = outer.map_or_else(Vec::new, |child| child.around.clone());
    around.push(EnclosingRun {
        run: parent.run,
        first: parent.first(),
        step: step.clone(),
        index,
    });
    let earlier = parent.earlier.as_ref().zip(first_run);
    let earlier = earlier.map(|(of, first)| of.of_child(first, last));
    Ok(FoldedRun {
        begun: true,
        cursor: first,
        child_of: Some(ChildPosition {
            parent: parent.run,
            step,
            index,
            item,
            around,
        }),
        input: parent.input.clone(),
        headers: parent.headers.clone(),
        query: parent.query.clone(),
        trigger: parent.trigger.clone(),
        started_by: parent.started_by.clone(),
        steps: parent.steps.clone(),
        earlier: earlier.map(Box::new),
        ..FoldedRun::new(run)
    })
}

pub(super) fn apply_opened(state: &mut FoldedRun, flow: &Flow, step: &str) -> Result<(), Unfit> {
    state.must_be_new_at(flow, step)?;
    let action = state.step(flow).map(|step| &step.action);
    fits(matches!(
        action,
        Some(Action::Foreach(_) | Action::Parallel(_))
    ))?;
    state.current = Current::Fan(Fan::default());
    Ok(())
}

pub(super) fn apply_loaded(
    state: &mut FoldedRun,
    flow: &Flow,
    step: &str,
    (count, repeats): (u32, u32),
) -> Result<(), Unfit> {
    let fan = fan(state, flow, step)?;
    fits(fan.count.is_none())?;
    (fan.count, fan.repeats) = (Some(count), repeats);
    Ok(())
}

pub(super) fn apply_stopped(
    state: &mut FoldedRun,
    flow: &Flow,
    step: &str,
    (fault, cancels): (Option<&Fault>, bool),
) -> Result<(), Unfit> {
    fan(state, flow, step)?.stopped = Some((fault.cloned(), cancels));
    Ok(())
}

pub(super) fn apply_ended(
    state: &mut FoldedRun,
    flow: &Flow,
    step: &str,
    (result, joined, fault): (&Value, &Value, Option<&Fault>),
) -> Result<(), Unfit> {
    fan(state, flow, step)?;
    if let Some(fault) = fault {
        state.done.extend(state.cursor);
        state.current = Current::Broken(fault.clone());
        return Ok(());
    }
    if state.undoing.is_some() {
        state.next_step(flow);
        return Ok(());
    }
    state.done.extend(state.cursor);
    // The results of the branches' steps are known from here on.
    if let (Value::Object(steps), Value::Object(joined)) = (&mut state.steps, joined) {
        for (name, view) in joined {
            steps.insert(name.clone(), view.clone());
            state.gave.push(name.clone());
        }
    }
    state.finish_step(flow, step, result.clone(), None, None);
    Ok(())
}

/// The step whose child runs the run waits for.
fn fan<'s>(state: &'s mut FoldedRun, flow: &Flow, step: &str) -> Result<&'s mut Fan, Unfit> {
    state.must_be_at(flow, step)?;
    match &mut state.current {
        Current::Fan(fan) => Ok(fan),
        Current::Fresh
        | Current::Reading(_)
        | Current::Effect(_)
        | Current::Waiting { .. }
        | Current::Approving(_)
        | Current::Broken(_) => Err(Unfit),
    }
}

pub(super) fn apply_started(
    state: &mut FoldedRun,
    flow: &Flow,
    step: &str,
    (run, wait): (RunId, Option<WaitId>),
) -> Result<(), Unfit> {
    effect::must_be_open_at(state, flow, step)?;
    *state.calls.entry(step.to_owned()).or_default() += 1;
    match wait {
        Some(wait) => state.current = Current::Waiting { wait, until: None },
        None => {
            let run = run.to_string();
            state.finish_step(flow, step, json!({ "run": run }), Some(&run), None);
        }
    }
    Ok(())
}

pub(super) fn project_started(
    before: &Before,
    flow: &Flow,
    step: &str,
    (run, wait): (RunId, Option<WaitId>),
) -> RowChanges {
    let mut changes = effect::project_done(before, flow, step, Some(run.to_string()));
    if let Some(wait) = wait {
        changes.waits = vec![WaitChange::Open {
            wait,
            step: step.to_owned(),
            until: None,
            topic: None,
        }];
    }
    changes
}

pub(super) fn describe_begun(begun: &ChildBegun) -> String {
    let ChildBegun {
        parent,
        step,
        index,
        item,
        ..
    } = begun;
    match item.is_null() {
        true => format!("started as branch {index} of {step} in {parent}"),
        false => format!(
            "started as item {index} of {step} in {parent}: {}",
            words::value(item)
        ),
    }
}

pub(super) fn describe_opened(step: &str) -> String {
    format!("{step}: creating child runs")
}

pub(super) fn describe_loaded(step: &str, count: u32, repeats: u32) -> String {
    match repeats {
        0 => format!("{step}: {count} child runs"),
        repeats => format!("{step}: {count} child runs, {repeats} items with a repeated key"),
    }
}

pub(super) fn describe_stopped(step: &str, cancels: bool, fault: Option<&Fault>) -> String {
    let why = match (fault, cancels) {
        (Some(fault), _) => fault.message.as_str(),
        (None, true) => "one succeeded, and the others are cancelled",
        (None, false) => "one failed",
    };
    format!("{step}: no more child runs start: {why}")
}

pub(super) fn describe_ended(step: &str, result: &Value, fault: Option<&Fault>) -> String {
    match fault {
        Some(fault) => format!("{step}: failed {}", words::fault(fault)),
        None if result.is_null() => format!("{step}: all child runs ended"),
        None => format!("{step}: all child runs ended: {}", words::value(result)),
    }
}

pub(super) fn describe_started(step: &str, run: RunId, wait: Option<WaitId>) -> String {
    match wait {
        Some(_) => format!("{step}: called {run}; waiting for its end"),
        None => format!("{step}: called {run}"),
    }
}
