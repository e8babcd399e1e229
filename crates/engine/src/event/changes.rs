//! What events change of the tables, and what was true before.

use semel_flow::{Flow, Step};
use semel_model::effect::EffectState;
use semel_model::run;
use semel_model::{EffectId, Guard};
use semel_store::alerts::RaisedAlert;
use semel_store::approvals::ApprovalChange;
use semel_store::journal::{EffectChange, RecordChange, WaitChange};
use semel_store::kept_generations::GenerationChange;
use semel_store::named_effects::NameNotice;
use semel_store::tasks::TaskChange;

use crate::state::FoldedRun;

/// What an event, or several of one write, change of the tables.
#[derive(Debug, Default)]
pub struct RowChanges {
    /// Of the ledger: one change per effect.
    pub effects: Vec<EffectChange>,
    /// Of the waits.
    pub waits: Vec<WaitChange>,
    /// Of the tasks.
    pub tasks: Vec<TaskChange>,
    /// Of the approvals.
    pub approvals: Vec<ApprovalChange>,
    /// What named effects are told.
    pub notices: Vec<NameNotice>,
    /// What sets the generations of steps apart.
    pub kept_generations: Vec<GenerationChange>,
    /// What people must learn of.
    pub alerts: Vec<RaisedAlert>,
    /// Of the run's record.
    pub record: Option<RecordChange>,
}

/// What was true before an event, as far as the tables depend on it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Before {
    /// The effect that the run stood at.
    pub effect: Option<EffectSnapshot>,
    /// Whether the run was stopped until an operator acts.
    pub stopped: bool,
}

/// What the ledger says of an effect.
#[derive(Clone, Copy, Debug)]
pub struct EffectSnapshot {
    /// The effect.
    pub effect: EffectId,
    /// How it is made safe.
    pub guard: Guard,
    /// The number of its latest attempt.
    pub attempt: u32,
    /// Its state.
    pub state: EffectState,
    /// Whether the ledger has a row of it. What commits with its own outcome is never seen pending:
    /// its row comes with that.
    pub has_row: bool,
}

impl Before {
    /// What is true of a run now, before an event.
    pub fn of(state: &FoldedRun, flow: &Flow) -> Self {
        Self {
            effect: EffectSnapshot::of(state, flow),
            stopped: state.stopped,
        }
    }
}

impl EffectSnapshot {
    /// The effect that a run stands at, where it does.
    pub fn of(state: &FoldedRun, flow: &Flow) -> Option<Self> {
        let entry = &state.effect()?.entry;
        let (attempt, entry_state) = (entry.attempt(), entry.state());
        let is_first = attempt == 1 && entry_state == EffectState::Pending;
        let commits_here = state.step(flow).is_some_and(Step::commits_here);
        Some(Self {
            effect: entry.id(),
            guard: entry.guard(),
            attempt,
            state: entry_state,
            has_row: !(is_first && commits_here),
        })
    }

    /// The same effect in another state.
    #[must_use]
    pub(super) fn with(self, state: EffectState) -> Self {
        Self { state, ..self }
    }
}

impl RowChanges {
    pub(super) fn of_effect(change: EffectChange) -> Self {
        Self {
            effects: vec![change],
            ..Self::default()
        }
    }

    pub(super) fn of_wait(change: WaitChange) -> Self {
        Self {
            waits: vec![change],
            ..Self::default()
        }
    }

    pub(super) fn of_approval(change: ApprovalChange) -> Self {
        Self {
            approvals: vec![change],
            ..Self::default()
        }
    }

    pub(super) fn of_record(record: RecordChange) -> Self {
        Self {
            record: Some(record),
            ..Self::default()
        }
    }

    /// Whether one effect changes at the most, and nothing else.
    pub fn is_one_effect(&self) -> bool {
        self.effects.len() <= 1
            && self.waits.is_empty()
            && self.tasks.is_empty()
            && self.approvals.is_empty()
            && self.notices.is_empty()
            && self.kept_generations.is_empty()
            && self.alerts.is_empty()
            && self.record.is_none()
    }

    /// Adds what a later event of the same write changes: its word on an effect and on the record
    /// counts.
    pub fn add(&mut self, later: Self) {
        for change in later.effects {
            self.add_effect(change);
        }
        self.waits.extend(later.waits);
        self.tasks.extend(later.tasks);
        self.approvals.extend(later.approvals);
        self.notices.extend(later.notices);
        self.kept_generations.extend(later.kept_generations);
        self.alerts.extend(later.alerts);
        if let Some(record) = later.record {
            let was_stopped = match &self.record {
                Some(earlier) => earlier.was_stopped,
                None => record.was_stopped,
            };
            self.record = Some(RecordChange {
                was_stopped,
                ..record
            });
        }
    }

    fn add_effect(&mut self, change: EffectChange) {
        let mut known = self.effects.iter_mut();
        match known.find(|known| known.effect == change.effect) {
            Some(earlier) => {
                // What the tables say is what was true before the first of them.
                *earlier = EffectChange {
                    first: earlier.first || change.first,
                    follows: earlier.follows || change.follows,
                    was_in_doubt: earlier.was_in_doubt,
                    ..change
                };
            }
            None => self.effects.push(change),
        }
    }

    /// With a record that says so, where the event lets a stopped run continue.
    #[must_use]
    pub(super) fn resumed_by(mut self, before: &Before, after: &FoldedRun) -> Self {
        if let Some(record) = &mut self.record {
            record.was_stopped = before.stopped;
        }
        if before.stopped && !after.stopped && self.record.is_none() {
            self.record = Some(RecordChange {
                was_stopped: true,
                ..RecordChange::to(run::RunState::Active)
            });
        }
        self
    }
}
