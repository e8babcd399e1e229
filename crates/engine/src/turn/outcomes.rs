//! How many attempts at effects had which outcome, counted when the outcome is recorded.

use semel_model::event::Event;
use semel_store::tallies::TallyKind;

use super::Turn;

impl Turn {
    /// Counts the outcomes among the events of a write: for the process, for the flow and for each step.
    pub(super) fn count_outcomes<'a>(&self, events: impl Iterator<Item = &'a Event> + Clone) {
        let metrics = &self.runtime.metrics;
        let outcomes = events.filter_map(outcome);
        for (_, what) in outcomes.clone() {
            match what {
                Outcome::Done => metrics.effects_done.add_one(),
                Outcome::Failed => metrics.effects_failed.add_one(),
                Outcome::Doubted => metrics.effects_doubted.add_one(),
            }
        }
        let attempts = outcomes.map(|(step, what)| (step, what.tallied()));
        let flow = self.release.tallied();
        self.runtime.local.tallies.add_attempts(flow, attempts);
    }
}

#[derive(Clone, Copy)]
enum Outcome {
    Done,
    Failed,
    Doubted,
}

impl Outcome {
    fn tallied(self) -> TallyKind {
        match self {
            Self::Done => TallyKind::EffectDone,
            Self::Failed => TallyKind::EffectFailed,
            Self::Doubted => TallyKind::EffectDoubted,
        }
    }
}

/// The step whose outcome an event is, and which.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a new event carries no outcome of an effect"
)]
fn outcome(event: &Event) -> Option<(&str, Outcome)> {
    match event {
        Event::Done { step, .. } => Some((step, Outcome::Done)),
        Event::Failed { step, .. } => Some((step, Outcome::Failed)),
        Event::Doubted { step, .. } => Some((step, Outcome::Doubted)),
        _ => None,
    }
}
