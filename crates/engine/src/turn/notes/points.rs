//! Where a test build may be held: before and after each write, named for what it writes.

use semel_model::event::Event;

use super::Notes;

impl Notes {
    /// The names of the fault points before and after the write.
    pub(in crate::turn) fn fault_points(&self) -> (&'static str, &'static str) {
        let outcome = |event: &Event| {
            matches!(
                event,
                Event::Done { .. } | Event::Failed { .. } | Event::Doubted { .. }
            )
        };
        let intent = |event: &Event| matches!(event, Event::Intended { .. });
        let loaded = |event: &Event| matches!(event, Event::FanLoaded { .. });
        if self.kv.is_some() || self.events.iter().any(outcome) {
            ("outcome.before", "outcome.after")
        } else if self.events.iter().any(intent) {
            ("intent.before", "intent.after")
        } else if self.events.iter().any(loaded) {
            ("loaded.before", "loaded.after")
        } else if self.record.is_some() {
            ("record.before", "record.after")
        } else {
            ("other.before", "other.after")
        }
    }
}
