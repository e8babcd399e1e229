//! Generations that are kept beyond the history of a key: how long, and what a run reads of them.

use semel_model::{EffectId, Fingerprint, PastEffect, PastOutcome, RunId};
use semel_store::kept_generations::{GenerationChange, KeptGeneration};
use semel_store::{ReadError, kept_generations};
use serde_json::Value;

use super::Turn;
use crate::key_memory::key_memory;
use crate::runtime::Runtime;
use crate::state::KEPT;

impl Turn {
    /// Keeps generations for at least as long as connections say that their destinations remember keys.
    pub(super) fn lengthen_memories(&self, kept: &mut [GenerationChange]) {
        if kept.is_empty() {
            return;
        }
        let destinations = self.runtime.destinations(&self.release);
        for change in kept {
            let flow = &self.release.flow;
            let step = flow.find_step(&change.step);
            // The key of what undid it is remembered as well.
            let undo = step.and_then(|step| step.undo).filter(|_| change.undone);
            let undo = undo.and_then(|place| flow.steps.get(place));
            for step in step.into_iter().chain(undo) {
                let connection = step.connection();
                let connection = connection.and_then(|name| destinations.connection(name));
                if let Some(memory) = key_memory(step, connection) {
                    change.memory = change.memory.max(memory);
                }
            }
        }
    }
}

/// What is kept of the effects of a key whose history is gone, as its next run inherits it: each is undone,
/// under the generation before the one that the step has now.
pub(crate) async fn kept_of(
    runtime: &Runtime,
    first: RunId,
    intent: u32,
) -> Result<Vec<PastEffect>, ReadError> {
    let kept = kept_generations::list(runtime.cell.of(first), first).await?;
    let past = kept.into_iter().filter_map(|it| past_of(first, it, intent));
    Ok(past.collect())
}

fn past_of(first: RunId, kept: KeptGeneration, intent: u32) -> Option<PastEffect> {
    let generation = kept.next(intent).checked_sub(1)?;
    Some(PastEffect {
        effect: EffectId::derive(first, &kept.step, "", generation),
        step: kept.step,
        sent_as: None,
        generation,
        run: first,
        kind: KEPT.to_owned(),
        connection: None,
        fingerprint: Fingerprint::of(&Value::Null),
        outcome: PastOutcome::Undone,
    })
}
