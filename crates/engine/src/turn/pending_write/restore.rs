//! A write that does not happen because of a pause, or because its destination has no room, taken back
//! without the intent.

use semel_model::effect::EffectState;
use semel_model::event::Event;
use semel_store::journal::{EffectChange, Transition};
use semel_store::tasks::TaskChange;

use super::PendingWrite;
use crate::event::RowChanges;

impl PendingWrite {
    /// Takes a refused transition back, up to the last intent in it. The intent is the last that a
    /// decision comes to, so that what stands before it holds without it: also changes that commit with
    /// their own intents (`coalesce`). Never called for a write that has more after its last intent.
    pub(in crate::turn) fn restore(&mut self, refused: &Transition) {
        let last = refused.events.iter().rposition(Event::is_intent);
        let kept = last.unwrap_or(refused.events.len());
        self.events = refused.events.iter().take(kept).cloned().collect();
        self.changes = RowChanges {
            effects: refused.effects.clone(),
            waits: refused.waits.clone(),
            tasks: refused.tasks.clone(),
            approvals: refused.approvals.clone(),
            notices: refused.notices.clone(),
            kept_generations: refused.kept_generations.clone(),
            alerts: refused.alerts.clone(),
            record: refused.record.clone(),
        };
        if let Some(Event::Intended { step, effect, .. }) =
            last.and_then(|last| refused.events.get(last))
        {
            let mut effects = std::mem::take(&mut self.changes.effects);
            let is_first = |change: &EffectChange| change.effect == *effect && change.first;
            if effects.iter().any(is_first) {
                // It has no row yet, and what a look saw before it is old by the time it is intended.
                let look = |it: &Event| matches!(it, Event::Probed { step: of, .. } if of == step);
                self.events.retain(|event| !look(event));
                // The one whose place it would have taken is still the step's.
                effects.retain(|change| {
                    let is_other = change.step == *step && change.effect != *effect;
                    !is_other || change.state != EffectState::Failed
                });
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
