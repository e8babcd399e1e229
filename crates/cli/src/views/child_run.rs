//! Child runs: items and branches of runs.

use semel_api::types::{ChildRun, ChildRunProgress, ChildRunState};

use super::{fault_text, value};
use crate::style::{Style, Tone, cell, render, toned_cell};

/// Child runs as a table.
pub(crate) fn table(children: &[ChildRun], style: Style) -> String {
    let mut table = style.table(&["STEP", "#", "KEY", "STATE", "RUN", "OUTCOME"]);
    for child in children {
        let state = match child.run_state {
            Some(status) if child.state == ChildRunState::Open => status.as_str(),
            _ => child.state.as_str(),
        };
        table.add_row([
            cell(&child.step),
            cell(child.index.to_string()),
            cell(&child.key),
            toned_cell(tone(child.state), state),
            cell(child.run.to_string()),
            cell(outcome(child)),
        ]);
    }
    render(&table)
}

/// The progress of a run's child runs, by step.
pub(crate) fn progress(steps: &[ChildRunProgress], style: Style) -> String {
    let heads = [
        "STEP",
        "ALL",
        "DONE",
        "ACTIVE",
        "FAILED",
        "CANCELLED",
        "PENDING",
    ];
    let mut table = style.table(&heads);
    for step in steps {
        let tone = if step.failed > 0 {
            Tone::Bad
        } else {
            Tone::Plain
        };
        table.add_row([
            cell(&step.step),
            cell(step.count.to_string()),
            cell(step.succeeded.to_string()),
            cell(step.open.to_string()),
            toned_cell(tone, step.failed.to_string()),
            cell(step.cancelled.to_string()),
            cell(step.pending.to_string()),
        ]);
    }
    render(&table)
}

fn outcome(child: &ChildRun) -> String {
    match (&child.fault, &child.result) {
        (Some(fault), _) => fault_text(fault),
        (None, Some(result)) => value(result),
        (None, None) => String::new(),
    }
}

const fn tone(state: ChildRunState) -> Tone {
    match state {
        ChildRunState::Succeeded => Tone::Good,
        ChildRunState::Failed | ChildRunState::Cancelled => Tone::Bad,
        ChildRunState::Pending | ChildRunState::Open => Tone::Plain,
    }
}
