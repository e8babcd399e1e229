//! What the stage saw of one case.

use std::collections::{BTreeMap, BTreeSet};

use semel_model::{EffectId, RunId};
use semel_steps::Origin;

/// An effect that arrived and was performed.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(crate) run: RunId,
    pub(crate) step: String,
    /// Arrivals for which this is equal are one effect.
    pub(crate) counts_as: String,
    /// The author signed for repeats.
    pub(crate) repeats_allowed: bool,
}

/// A probe's question.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) step: String,
    pub(crate) request: String,
}

/// What the stage saw of one case.
#[derive(Default)]
pub(crate) struct CaseLog {
    /// Every attempt, performed or not.
    pub(crate) attempts: Vec<(RunId, String, EffectId)>,
    pub(crate) arrivals: Vec<Arrival>,
    pub(crate) asked: Vec<Asked>,
    pub(crate) unanswered_probes: BTreeSet<String>,
    /// How often each commit point was reached, by name and step.
    pub(crate) points: BTreeMap<(&'static str, String), u32>,
    /// The runs that came to each step, in their order.
    pub(crate) comers: BTreeMap<String, Vec<RunId>>,
    /// Whether the fault has happened.
    pub(crate) used: bool,
    /// Whether the effect was refused after which the run undoes what it did.
    pub(crate) refused: bool,
    /// Whether a process ended while it accepted the delivery.
    pub(crate) delivery_died: bool,
    /// Whether the callback came that a second one contradicts.
    pub(crate) called_back: bool,
    /// Whether an answer is held back.
    pub(crate) late_waiting: bool,
}

impl CaseLog {
    /// Which run this is among those that came to its step, from 1.
    pub(super) fn nth_comer(&mut self, origin: Origin<'_>) -> u32 {
        let comers = self.comers.entry(origin.step.to_owned()).or_default();
        let place = comers.iter().position(|run| *run == origin.run);
        let place = place.unwrap_or_else(|| {
            comers.push(origin.run);
            comers.len() - 1
        });
        u32::try_from(place + 1).unwrap_or(u32::MAX)
    }

    /// Whether the effect of the run's step was performed.
    pub(super) fn performed(&self, origin: Origin<'_>) -> bool {
        let mut arrivals = self.arrivals.iter();
        arrivals.any(|one| one.run == origin.run && one.step == origin.step)
    }

    /// Counts a commit point; which time it is, from 1.
    pub(super) fn reach(&mut self, name: &'static str, step: &str) -> u32 {
        let times = self.points.entry((name, step.to_owned())).or_default();
        *times += 1;
        *times
    }
}
