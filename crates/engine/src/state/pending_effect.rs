//! The effect that a run stands at.

use jiff::Timestamp;
use semel_model::effect::{Effect, LedgerEntry, Licence, Pending};
use semel_model::event::DoubtPlan;
use semel_model::request::StepRequest;
use semel_model::{EffectId, Guard, SettledBy, Span};

/// An effect that is not settled.
#[derive(Clone, Debug)]
pub struct PendingEffect {
    /// Its entry of the ledger.
    pub entry: LedgerEntry,
    /// The key that the destination is sent, where the step has a business key.
    pub sent_key: Option<EffectId>,
    /// What goes out, the same on every attempt.
    pub request: StepRequest,
    /// How long the destination remembers the key, where its connection said so at the intent.
    pub window: Option<Span>,
    /// When its first intent was written: the destination's key window counts from here.
    pub since: Timestamp,
    /// How long pauses took since then: the step's time limit stands still meanwhile.
    pub deferred: Span,
    /// When its latest intent was written: what it sent cannot land long after that.
    pub intended_at: Timestamp,
    /// When the next attempt may be made, where it rests; never, when absent.
    pub retry_at: Option<Timestamp>,
    /// How its doubt is settled, where it is in doubt.
    pub plan: Option<DoubtPlan>,
    /// How many probes failed since the doubt began.
    pub probes: u32,
    /// How many probes found nothing since the doubt began, too early to be believed.
    pub absences: u32,
    /// How many attempts the destination's limits held back: they do not count.
    pub held_back: u32,
    /// What allows the next attempt, where something does already.
    pub licence: Option<Licence>,
    /// The run was resumed since its latest attempt, which had failed.
    pub resumed: bool,
    /// An operator failed it while it was in doubt, so it may have happened: who settles the doubt
    /// when it comes back.
    pub given_up: Option<SettledBy>,
}

impl PendingEffect {
    /// An effect whose first intent is written at `at`.
    pub fn intend(effect: EffectId, guard: Guard, request: StepRequest, at: Timestamp) -> Self {
        Self {
            entry: LedgerEntry::Pending(Effect::<Pending>::intend(effect, guard)),
            sent_key: None,
            request,
            window: None,
            since: at,
            deferred: Span::from_millis(0),
            intended_at: at,
            retry_at: None,
            plan: None,
            probes: 0,
            absences: 0,
            held_back: 0,
            licence: None,
            resumed: false,
            given_up: None,
        }
    }

    /// The key that the destination is sent.
    pub fn key(&self) -> EffectId {
        self.sent_key.unwrap_or(self.entry.id())
    }

    /// From when on a probe that finds nothing is believed, where that was planned.
    pub fn absent_from(&self) -> Option<Timestamp> {
        match &self.plan {
            Some(DoubtPlan::Probe { absent_from, .. }) => *absent_from,
            Some(DoubtPlan::Repeat { .. } | DoubtPlan::Review) | None => None,
        }
    }
}
