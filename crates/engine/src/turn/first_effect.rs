//! The first effect of a run, planned before the run exists.
//!
//! Where the process that accepts a delivery also starts its run, the intent of the first effect
//! is part of the commit that accepts. Only an intent is planned here: anything else that a run may
//! begin with is left to its first turn.

use semel_model::Key;
use semel_model::event::Event;
use semel_model::request::{ExternalRequest, LocalChange};
use semel_steps::Room;
use semel_store::claims::FirstEffect;
use serde::ser::SerializeSeq as _;
use serde::{Serialize, Serializer};

use super::TurnStart;
use super::room::room_of_first;
use super::views::{Views, views};
use crate::catalogue::Release;
use crate::decide::{DecideContext, Decision, NextAction, decide};
use crate::external_result::ExternalResult;
use crate::runtime::{Runtime, jitter};
use crate::state::FoldedRun;

/// A run whose first intent is to be accepted with it.
pub(crate) struct FirstEffectPlan {
    pub(super) state: FoldedRun,
    pub(super) act: FirstAct,
    pub(super) views: Views,
}

/// What a run does first, once its intent is committed.
pub(crate) enum FirstAct {
    /// Has an executor perform it, in the room that was found for it.
    Perform(ExternalRequest, Option<Box<Room>>),
    /// Changes Semel's own tables.
    Change(LocalChange),
}

impl FirstAct {
    /// Nothing where the act follows no intent.
    fn of(act: NextAction) -> Option<Self> {
        match act {
            NextAction::Perform(request) => Some(Self::Perform(request, None)),
            NextAction::Change(change) => Some(Self::Change(change)),
            NextAction::BeginNamed(_)
            | NextAction::BeginUndo(_)
            | NextAction::Read(_)
            | NextAction::ReadEntry(_)
            | NextAction::Probe(_)
            | NextAction::Look(_)
            | NextAction::Sleep { .. }
            | NextAction::Pause(_)
            | NextAction::Fan
            | NextAction::CountMemory
            | NextAction::StopRun(..)
            | NextAction::End(_) => None,
        }
    }
}

impl FirstEffectPlan {
    /// Works out what a run does first, and where its turn begins. `state` is what its first
    /// event gives, `first` that event. Nothing where the run begins with anything but an effect.
    pub(crate) fn plan(
        runtime: &Runtime,
        release: &Release,
        key: &Key,
        mut state: FoldedRun,
        first: &impl Serialize,
    ) -> Option<(TurnStart, FirstEffect)> {
        let views = views(runtime, release, &state, key);
        let destinations = runtime.destinations(release);
        let pauses = runtime.pauses.current();
        let context = DecideContext {
            flow: &release.flow,
            destinations: &destinations,
            run: &views.run,
            waits: &views.waits,
            landing: runtime.landing(),
            now: runtime.clock.now(),
            jitter: jitter(),
            cancel: false,
            answers: &[],
            late_responses: &[],
            outside: &ExternalResult::Nothing,
            looked: None,
            pauses: pauses.of_flow(release.namespace_id, release.flow.name.as_str()),
        };
        // The run's first turn finds and reports an event that does not fit.
        let Decision {
            events,
            mut changes,
            act,
        } = decide(&mut state, &context).ok()?;
        let mut act = FirstAct::of(act)?;
        if !changes.is_one_effect() {
            return None;
        }
        if let FirstAct::Perform(request, room) = &mut act {
            let found = room_of_first(runtime, release, &destinations, request).ok()?;
            *room = found.map(Box::new);
        }
        let effect = changes.effects.pop();
        let events = first_row(first, &events).ok()?;
        let opening = Self { state, act, views };
        let begun = TurnStart::With(Box::new(opening));
        let first_effect = FirstEffect {
            events,
            effect,
            pause_version: pauses.version(),
            is_stale: false,
        };
        Some((begun, first_effect))
    }

    /// Gives up the room that was found for it.
    pub(crate) fn give_up_room(&mut self) {
        if let FirstAct::Perform(_, room) = &mut self.act {
            *room = None;
        }
    }
}

/// A run's first row: the event that made it, and its first intent. The event is borrowed, and its
/// payload written as it came.
pub(crate) fn first_row(
    first: &impl Serialize,
    rest: &[Event],
) -> Result<String, serde_json::Error> {
    serde_json::to_string(&Row { first, rest })
}

struct Row<'a, First> {
    first: &'a First,
    rest: &'a [Event],
}

impl<First: Serialize> Serialize for Row<'_, First> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_seq(Some(1 + self.rest.len()))?;
        row.serialize_element(self.first)?;
        for event in self.rest {
            row.serialize_element(event)?;
        }
        row.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_first_row_holds_what_came_and_what_is_done_first() {
        let first: &RawValue = serde_json::from_str(r#"{"input":[1, [2]]}"#).unwrap();
        let skipped = Event::Skipped {
            step: "a]".to_owned(),
        };
        let read = |rest: &[Event]| {
            let row = first_row(&first, rest).unwrap();
            serde_json::from_str::<Value>(&row).unwrap()
        };

        assert_eq!(read(&[]), json!([{ "input": [1, [2]] }]));
        assert_eq!(
            read(&[skipped]),
            json!([{ "input": [1, [2]] }, { "event": "skipped", "step": "a]" }])
        );
    }
}
