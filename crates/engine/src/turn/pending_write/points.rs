//! Failpoints of test builds: before and after each write, named for what it writes.

use semel_model::event::{Event, NameEvent};
use semel_model::run::RunState;
use semel_store::journal::RecordChange;

use super::PendingWrite;

impl PendingWrite {
    /// The names of the failpoints before and after the write.
    pub(in crate::turn) fn fault_points(&self) -> (&'static str, &'static str) {
        let outcome = |event: &Event| {
            matches!(
                event,
                Event::Done { .. } | Event::Failed { .. } | Event::Doubted { .. }
            )
        };
        let loaded = |event: &Event| matches!(event, Event::FanLoaded { .. });
        let asked = |event: &Event| {
            matches!(
                event,
                Event::Named {
                    named: NameEvent::Asked { .. },
                    ..
                }
            )
        };
        let met = |event: &Event| matches!(event, Event::Named { .. });
        if !self.kv.is_empty() || self.events.iter().any(outcome) {
            ("outcome.before", "outcome.after")
        } else if self.events.iter().any(Event::is_intent) {
            ("intent.before", "intent.after")
        } else if self.events.iter().any(loaded) {
            ("loaded.before", "loaded.after")
        } else if self.events.iter().any(asked) {
            ("ask.before", "ask.after")
        } else if self.events.iter().any(met) {
            ("meet.before", "meet.after")
        } else if self.changes.record.as_ref().is_some_and(is_stop) {
            ("record.before", "record.after")
        } else {
            ("other.before", "other.after")
        }
    }
}

impl PendingWrite {
    /// The step that the write is about: the first whose outcome or intent it carries.
    pub(in crate::turn) fn subject_step(&self) -> Option<&str> {
        let outcome = self.events.iter().find_map(outcome_of);
        outcome.or_else(|| self.events.iter().find_map(intent_of))
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a new event carries no outcome of an effect"
)]
fn outcome_of(event: &Event) -> Option<&str> {
    match event {
        Event::Done { step, .. } | Event::Failed { step, .. } | Event::Doubted { step, .. } => {
            Some(step)
        }
        _ => None,
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "only one event is an intent"
)]
fn intent_of(event: &Event) -> Option<&str> {
    match event {
        Event::Intended { step, .. } => Some(step),
        _ => None,
    }
}

/// Whether the record says that the run stops or ends.
fn is_stop(record: &RecordChange) -> bool {
    record.state != RunState::Active
}
