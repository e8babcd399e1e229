//! A write that was refused because of a pause, taken back without the intent.

use semel_model::effect::EffectState;
use semel_model::event::Event;
use semel_store::journal::{EffectChange, Transition};
use semel_store::tasks::TaskChange;

use super::PendingWrite;
use crate::event::RowChanges;

impl PendingWrite {
    /// Takes a refused transition back, up to the intent in it. The intent is the last that a decision
    /// comes to, so that what stands before it holds without it. Never called for a write that has more
    /// after an intent (`coalesce`).
    pub(in crate::turn) fn restore(&mut self, refused: &Transition) {
        let events = refused.events.iter();
        self.events = events
            .take_while(|event| !event.is_intent())
            .cloned()
            .collect();
        self.changes = RowChanges {
            effects: refused.effects.clone(),
            waits: refused.waits.clone(),
            tasks: refused.tasks.clone(),
            approvals: refused.approvals.clone(),
            notices: refused.notices.clone(),
            alerts: refused.alerts.clone(),
            record: refused.record.clone(),
        };
        if let Some(Event::Intended { step, effect, .. }) =
            refused.events.iter().find(|it| it.is_intent())
        {
            let effects = std::mem::take(&mut self.changes.effects);
            let is_first = |change: &EffectChange| change.effect == *effect && change.first;
            if effects.iter().any(is_first) {
                // It has no row yet, and what a look saw before it is old by the time it is intended.
                let look = |it: &Event| matches!(it, Event::Probed { step: of, .. } if of == step);
                self.events.retain(|event| !look(event));
            }
            let before = state_before(&self.events, step);
            let effects = effects.into_iter().filter(|change| !is_first(change));
            let known = |change: EffectChange| match change.effect == *effect {
                true => before.map(|state| EffectChange {
                    attempt: change.attempt.saturating_sub(1),
                    state,
                    ..change
                }),
                false => Some(change),
            };
            self.changes.effects = effects.filter_map(known).collect();
            self.changes.tasks.retain(|change| match change {
                TaskChange::Open { task, .. } | TaskChange::Reopen { task, .. } => task != effect,
                TaskChange::Defer { .. } | TaskChange::Withdraw { .. } => true,
            });
        }
        self.kv.clone_from(&refused.kv);
        self.emitted.clone_from(&refused.emitted);
        self.departs.clone_from(&refused.leaves_gates);
        self.acts.clone_from(&refused.acts);
        self.next_run.clone_from(&refused.next_run);
    }
}

/// The state of a step's effect by the events before its next attempt, where they say one.
fn state_before(events: &[Event], step: &str) -> Option<EffectState> {
    events.iter().rev().find_map(|event| {
        if let Event::Failed { step: of, .. } = event
            && of == step
        {
            return Some(EffectState::Retrying);
        }
        let doubts = matches!(event, Event::Doubted { step: of, .. } | Event::Probed { step: of, .. } if of == step);
        doubts.then_some(EffectState::InDoubt)
    })
}
