//! Waits: they open, and end by time or by an answer.

use jiff::Timestamp;
use semel_flow::release::WaitStep;
use semel_flow::{Action, Flow, Step};
use semel_model::event::WaitEnd;
use semel_model::{Fault, RunId, WaitId};
use semel_store::event_waits::Topic;
use semel_store::journal::WaitChange;
use serde_json::Value;

use super::changes::RowChanges;
use super::words;
use crate::state::{Current, FoldedRun, Unfit, fits};

pub(super) fn apply_opened(
    state: &mut FoldedRun,
    flow: &Flow,
    step: &str,
    (wait, until): (WaitId, Option<Timestamp>),
) -> Result<(), Unfit> {
    state.must_be_new_at(flow, step)?;
    state.current = Current::Waiting { wait, until };
    Ok(())
}

pub(super) fn apply_ended(
    state: &mut FoldedRun,
    flow: &Flow,
    step: &str,
    how: &WaitEnd,
) -> Result<(), Unfit> {
    state.must_be_at(flow, step)?;
    fits(state.is_waiting())?;
    match how {
        WaitEnd::TimedOut if !state.step(flow).is_some_and(continues) => {
            let fault = Fault::permanent("wait-timed-out", "nothing came in time");
            state.current = Current::Broken(fault);
        }
        WaitEnd::Elapsed | WaitEnd::TimedOut => {
            state.finish_step(flow, step, Value::Null, None, None);
        }
        WaitEnd::Answered { payload } => {
            state.finish_step(flow, step, payload.clone(), None, None);
        }
    }
    Ok(())
}

/// Whether a run continues where a wait of this step ran out.
fn continues(step: &Step) -> bool {
    matches!(
        &step.action,
        Action::Wait(
            WaitStep::Callback { goes_on: true, .. } | WaitStep::Event { goes_on: true, .. }
        )
    )
}

/// Only a wait that something outside can complete has a row: a timer needs none.
pub(super) fn project_opened(
    flow: &Flow,
    step: &str,
    (wait, until, about): (WaitId, Option<Timestamp>, Option<&Value>),
) -> RowChanges {
    let action = flow.find_step(step).map(|step| &step.action);
    let Some(Action::Wait(asked @ (WaitStep::Callback { .. } | WaitStep::Event { .. }))) = action
    else {
        return RowChanges::default();
    };
    RowChanges::of_wait(WaitChange::Open {
        wait,
        step: step.to_owned(),
        until,
        topic: topic(asked, about),
    })
}

pub(super) fn project_ended(run: RunId, step: &str, how: &WaitEnd) -> RowChanges {
    match how {
        WaitEnd::TimedOut => RowChanges::of_wait(WaitChange::Elapse {
            wait: WaitId::derive(run, step),
        }),
        // An answer ended the row when it came; a timer has none.
        WaitEnd::Elapsed | WaitEnd::Answered { .. } => RowChanges::default(),
    }
}

/// Which event a wait is for, where it is for one.
fn topic(wait: &WaitStep, about: Option<&Value>) -> Option<Topic> {
    let WaitStep::Event { name, topic, .. } = wait else {
        return None;
    };
    let (path, value) = match (topic, about) {
        (Some(topic), Some(about)) => (topic.path.clone(), about.to_string()),
        _ => (String::new(), String::new()),
    };
    Some(Topic {
        event: name.clone(),
        path,
        value,
    })
}

pub(super) fn describe_opened(step: &str, wait: WaitId, until: Option<Timestamp>) -> String {
    format!("{step}: waiting ({wait}{})", words::until(until))
}

pub(super) fn describe_ended(step: &str, how: &WaitEnd) -> String {
    match how {
        WaitEnd::Elapsed => format!("{step}: wait is over"),
        WaitEnd::TimedOut => format!("{step}: wait timed out"),
        WaitEnd::Answered { payload } => format!("{step}: received {}", words::value(payload)),
    }
}
