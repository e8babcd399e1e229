//! Effects: what events make of the effect that a run stands at.

use jiff::Timestamp;
use semel_model::effect::{Effect, Entry, Licence, Pending};
use semel_model::event::{Plan, Seen};
use semel_model::request::Call;
use semel_model::{EffectId, Fault, Guard, SettledBy, Span};

use super::{Current, RunState};

/// An effect that is not settled.
#[derive(Clone, Debug)]
pub struct Standing {
    /// Its entry of the ledger.
    pub entry: Entry,
    /// What goes out, the same on every attempt.
    pub call: Call,
    /// How long the destination remembers the key, where its connection said so at the intent.
    pub window: Option<Span>,
    /// When its first intent was written: the destination's key window counts from here.
    pub since: Timestamp,
    /// When its latest intent was written: what it sent cannot land long after that.
    pub intended_at: Timestamp,
    /// When the next attempt may be made, where it rests; never, when absent.
    pub retry_at: Option<Timestamp>,
    /// How its doubt is settled, where it is in doubt.
    pub plan: Option<Plan>,
    /// How many probes failed since the doubt began.
    pub probes: u32,
    /// How many probes found nothing since the doubt began, too early to be believed.
    pub absences: u32,
    /// How many attempts the destination's limits held back: they do not count.
    pub held_back: u32,
    /// What allows the next attempt, where something does already.
    pub licence: Option<Licence>,
    /// An operator gave it up while it was in doubt, so it may have happened: who settles the doubt
    /// when it comes back.
    pub given_up: Option<SettledBy>,
}

impl Standing {
    /// From when on a probe that finds nothing is believed, where that was planned.
    pub fn absent_from(&self) -> Option<Timestamp> {
        match &self.plan {
            Some(Plan::Probe { absent_from, .. }) => *absent_from,
            Some(Plan::Repeat { .. } | Plan::Review) | None => None,
        }
    }
}

impl RunState {
    pub(super) fn intended(
        &mut self,
        effect: EffectId,
        call: Option<&Call>,
        licence: Option<Licence>,
        guard: Option<Guard>,
        at: Timestamp,
    ) {
        match (std::mem::replace(&mut self.current, Current::Fresh), call) {
            (Current::Effect(mut standing), _) => {
                standing.entry = again(standing.entry, licence);
                standing.intended_at = at;
                standing.retry_at = None;
                standing.plan = None;
                standing.licence = None;
                standing.given_up = None;
                self.current = Current::Effect(standing);
            }
            (_, Some(call)) => {
                let guard = guard.unwrap_or(Guard::Review);
                self.current = Current::Effect(Box::new(Standing {
                    entry: Entry::Pending(Effect::<Pending>::intend(effect, guard)),
                    call: call.clone(),
                    window: None,
                    since: at,
                    intended_at: at,
                    retry_at: None,
                    plan: None,
                    probes: 0,
                    absences: 0,
                    held_back: 0,
                    licence: None,
                    given_up: None,
                }));
            }
            (_, None) => unreachable!("the first intent of {effect} carries its call"),
        }
        self.parked = false;
    }

    pub(super) fn failed(&mut self, fault: &Fault, retry_at: Option<Timestamp>) {
        let Current::Effect(standing) = &mut self.current else {
            return;
        };
        standing.entry = match standing.entry.clone() {
            Entry::Pending(effect) if fault.retryable => {
                Entry::Retrying(effect.retrying(fault.clone()))
            }
            Entry::Pending(effect) => Entry::Failed(effect.failed(fault.clone())),
            Entry::Retrying(effect) => Entry::Failed(effect.given_up()),
            Entry::InDoubt(effect) => {
                // Unless a probe found nothing, an operator gave it up.
                let is_absent = standing.licence == Some(Licence::Absent);
                standing.given_up = (!is_absent).then_some(effect.state().doubt.settled_by);
                Entry::Failed(effect.refuted(fault.clone()))
            }
            settled @ (Entry::Done(_) | Entry::Failed(_)) => settled,
        };
        standing.retry_at = retry_at;
        standing.licence = None;
        standing.held_back += u32::from(fault.is_held_back());
        self.parked = false;
    }

    pub(super) fn doubted(&mut self, doubt: &semel_model::Doubt, plan: &Plan) {
        let Current::Effect(standing) = &mut self.current else {
            return;
        };
        standing.entry = match standing.entry.clone() {
            Entry::Pending(effect) => Entry::InDoubt(effect.in_doubt(doubt.clone())),
            Entry::Retrying(effect) => Entry::InDoubt(effect.in_doubt(doubt.clone())),
            // In journals of earlier builds a repeated delivery resumes it.
            Entry::Failed(effect) => Entry::InDoubt(effect.reopened().in_doubt(doubt.clone())),
            other @ (Entry::Done(_) | Entry::InDoubt(_)) => other,
        };
        standing.plan = Some(plan.clone());
        standing.licence = None;
        standing.given_up = None;
        standing.probes = 0;
        standing.absences = 0;
    }

    pub(super) fn probed(&mut self, seen: &Seen) {
        let Current::Effect(standing) = &mut self.current else {
            return;
        };
        match seen {
            Seen::Absent => standing.licence = Some(Licence::Absent),
            Seen::AbsentSoFar {
                absent_from,
                next_at,
            } => {
                standing.absences += 1;
                standing.plan = Some(Plan::Probe {
                    at: *next_at,
                    absent_from: Some(*absent_from),
                });
            }
            Seen::Unclear {
                retry_at: Some(at), ..
            } => {
                standing.probes += 1;
                let absent_from = standing.absent_from();
                let at = *at;
                standing.plan = Some(Plan::Probe { at, absent_from });
            }
            Seen::Unclear { retry_at: None, .. } => standing.plan = Some(Plan::Review),
        }
    }
}

/// The next attempt at an entry.
fn again(entry: Entry, licence: Option<Licence>) -> Entry {
    match (entry, licence) {
        (Entry::Retrying(effect), _) => Entry::Pending(effect.again()),
        (Entry::InDoubt(effect), Some(licence)) => Entry::Pending(effect.repeated(licence)),
        // In journals of earlier builds a repeated delivery resumes it.
        (Entry::Failed(effect), _) => Entry::Pending(effect.reopened().again()),
        (entry, _) => entry,
    }
}
