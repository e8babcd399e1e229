//! The opening: what a run does first, worked out before the run exists.
//!
//! Where the process that accepts a delivery also starts its run, the intent of the first effect
//! goes down in the commit that accepts. An opening is only ever an intent: whatever else a run may
//! begin with is left to its first turn.

use semel_model::Key;
use semel_model::request::Call;
use semel_store::claims::FirstMove;

use super::Begun;
use super::notes::Notes;
use super::views::{Views, views};
use crate::catalogue::Release;
use crate::decide::{Act, Sight, decide};
use crate::engine::{Inner, chance};
use crate::fold::RunState;
use crate::outside::Outside;

/// A run whose first intent is to be accepted with it.
pub(crate) struct Opening {
    pub(super) state: RunState,
    pub(super) notes: Notes,
    pub(super) call: Call,
    pub(super) views: Views,
}

impl Opening {
    /// Works out what a run does first, and where its turn begins. `state` is what its first row
    /// gives, `row` that row. Nothing where the run begins with anything but an effect.
    pub(crate) fn foresee(
        inner: &Inner,
        release: &Release,
        key: &Key,
        mut state: RunState,
        row: &str,
    ) -> Option<(Begun, FirstMove)> {
        let run = state.run;
        let views = views(inner, release, &state, key);
        let linked = inner.linked(release);
        let sight = Sight {
            flow: &release.flow,
            linked: &linked,
            run: &views.run,
            waits: &views.waits,
            now: inner.clock.now(),
            chance: chance(),
            cancel: false,
            answers: &[],
            evidence: &[],
            outside: &Outside::Nothing,
        };
        let (events, act) = decide(&mut state, &sight);
        let Act::Perform(call) = act else {
            return None;
        };
        let mut notes = Notes::default();
        for event in events {
            notes.add(&release.flow, run, event);
        }
        let (events, effect) = notes.take_opening()?;
        let events = join_rows(row, &serde_json::to_string(&events).ok()?);
        let opening = Self {
            state,
            notes,
            call,
            views,
        };
        let begun = Begun::With(Box::new(opening));
        Some((begun, FirstMove { events, effect }))
    }
}

/// One row with the events of two.
fn join_rows(first: &str, second: &str) -> String {
    format!(
        "{},{}",
        first.trim_end_matches(']'),
        second.trim_start_matches('[')
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_rows_hold_the_events_of_both() {
        let row = join_rows(r#"[{"input":[1]}]"#, r#"[{"list":[]},{"b":2}]"#);
        assert_eq!(row, r#"[{"input":[1]},{"list":[]},{"b":2}]"#);
    }
}
