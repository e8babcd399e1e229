//! How many attempts at effects had which outcome, counted when the outcome is recorded.

use semel_model::event::Event;
use semel_store::tallies::TallyKind;

use super::Turn;
use crate::metrics::{Counter, Metrics};

impl Turn {
    /// Counts the outcomes among the events of a write: for the process, for the flow and for each step.
    pub(super) fn count_outcomes<'a>(&self, events: impl Iterator<Item = &'a Event>) {
        let metrics = &self.runtime.metrics;
        let outcomes = events.filter_map(|event| outcome(event, metrics));
        let attempts = outcomes.map(|(step, what, counter)| {
            counter.add_one();
            (step, what)
        });
        let flow = self.release.tallied();
        self.runtime.local.tallies.add_attempts(flow, attempts);
    }
}

/// The step whose outcome an event is, and what counts it.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a new event carries no outcome of an effect"
)]
fn outcome<'a>(
    event: &'a Event,
    metrics: &'a Metrics,
) -> Option<(&'a str, TallyKind, &'a Counter)> {
    match event {
        Event::Done { step, .. } => Some((step, TallyKind::EffectDone, &metrics.effects_done)),
        Event::Failed { step, .. } => {
            Some((step, TallyKind::EffectFailed, &metrics.effects_failed))
        }
        Event::Doubted { step, .. } => {
            Some((step, TallyKind::EffectDoubted, &metrics.effects_doubted))
        }
        _ => None,
    }
}
