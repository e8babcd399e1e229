//! Gates: the run waits at one, joins another run there, or is let in.

use semel_model::event::Event;
use semel_model::gate::Kind;

use crate::state::{RunState, Unfit, fits};

pub(super) fn apply_held(state: &mut RunState, event: &Event) -> Result<(), Unfit> {
    state.must_be_live()?;
    state.held = Some(event.clone());
    Ok(())
}

pub(super) fn apply_admitted(state: &mut RunState, gate: Kind) -> Result<(), Unfit> {
    state.must_be_live()?;
    fits(!state.admitted.contains(&gate))?;
    state.admitted.push(gate);
    state.held = None;
    Ok(())
}
