//! Gates: the run waits at one, joins another run there, or is admitted.

use jiff::Timestamp;
use semel_model::RunId;
use semel_model::event::Event;
use semel_model::gate::GateKind;

use super::words;
use crate::state::{FoldedRun, Unfit, fits};

pub(super) fn apply_held(state: &mut FoldedRun, event: &Event) -> Result<(), Unfit> {
    state.must_be_live()?;
    state.held = Some(event.clone());
    Ok(())
}

pub(super) fn apply_admitted(state: &mut FoldedRun, gate: GateKind) -> Result<(), Unfit> {
    state.must_be_live()?;
    fits(!state.admitted.contains(&gate))?;
    state.admitted.push(gate);
    state.held = None;
    Ok(())
}

pub(super) fn describe_held(
    gate: GateKind,
    behind: Option<RunId>,
    until: Option<Timestamp>,
) -> String {
    let behind = behind.map_or_else(String::new, |run| format!(", behind {run}"));
    format!("waiting at `{gate}`{behind}{}", words::until(until))
}

pub(super) fn describe_joined(run: RunId) -> String {
    format!("joined {run}; ends as it does")
}

pub(super) fn describe_admitted(gate: GateKind) -> String {
    format!("admitted by `{gate}`")
}
