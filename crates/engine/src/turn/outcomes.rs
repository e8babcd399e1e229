//! How many attempts at effects had which outcome, counted when the outcome is recorded.

use semel_model::event::Event;
use semel_store::tallies::TallyKind;

use super::Turn;

/// The outcomes that one write records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcomes {
    done: u64,
    failed: u64,
    doubted: u64,
}

impl Outcomes {
    /// The outcomes among some events.
    pub(super) fn of(events: &[Event]) -> Self {
        events
            .iter()
            .fold(Self::default(), |sum, event| sum.and(Some(event)))
    }

    /// With one more event, where there is one.
    pub(super) fn and(mut self, event: Option<&Event>) -> Self {
        self.done += u64::from(matches!(event, Some(Event::Done { .. })));
        self.failed += u64::from(matches!(event, Some(Event::Failed { .. })));
        self.doubted += u64::from(matches!(event, Some(Event::Doubted { .. })));
        self
    }

    /// Adds them to the process's metrics, and to the tallies of the run's flow.
    pub(super) fn count(self, turn: &Turn) {
        turn.tally(TallyKind::EffectDone, self.done);
        turn.tally(TallyKind::EffectFailed, self.failed);
        turn.tally(TallyKind::EffectDoubted, self.doubted);
        let metrics = &turn.runtime.metrics;
        metrics.effects_done.add(self.done);
        metrics.effects_failed.add(self.failed);
        metrics.effects_doubted.add(self.doubted);
    }
}
