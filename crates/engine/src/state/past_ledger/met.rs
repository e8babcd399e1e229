//! Effects that a run met and did not perform: another holder of the business key had, or the thing was
//! at its destination before.

use semel_model::event::{NameEvent, NameHolder};
use semel_model::{EffectId, Fingerprint, PastEffect, PastOutcome};
use serde_json::Value;

use super::{FOUND, NAMED, PastLedger, UNDO};

/// A business key that a step asked for.
#[derive(Debug)]
pub(super) struct AskedName {
    fingerprint: Fingerprint,
    generation: u32,
    /// The key that the destination is sent, once the run holds the name.
    pub(super) sent_as: Option<EffectId>,
}

impl PastLedger {
    pub(super) fn named(&mut self, step: String, named: NameEvent) {
        match named {
            NameEvent::Asked {
                fingerprint,
                generation,
                ..
            } => {
                let asked = AskedName {
                    fingerprint,
                    generation,
                    sent_as: None,
                };
                self.names.insert(step, asked);
            }
            NameEvent::Held { effect, .. } => {
                if let Some(asked) = self.names.get_mut(&step) {
                    asked.sent_as = Some(effect);
                }
            }
            NameEvent::Waiting { .. }
            | NameEvent::Undoing { .. }
            | NameEvent::Shared { .. }
            | NameEvent::Left => {}
            NameEvent::Reused { .. } => self.met(step, named),
        }
    }

    fn met(&mut self, step: String, named: NameEvent) {
        let (
            NameEvent::Reused {
                effect,
                by,
                external_id,
                status,
                result,
            },
            Some(asked),
        ) = (named, self.names.get(&step))
        else {
            return;
        };
        let past = PastEffect {
            effect,
            sent_as: Some(effect),
            generation: asked.generation,
            run: match by {
                NameHolder::Run(run) => run,
                NameHolder::Script(_) => self.run,
            },
            kind: NAMED.to_owned(),
            connection: None,
            fingerprint: asked.fingerprint,
            outcome: PastOutcome::Done {
                external_id,
                status,
                result,
            },
            step: step.clone(),
        };
        self.open.remove(&step);
        self.effects.insert(step, past);
    }

    pub(super) fn found(
        &mut self,
        step: String,
        external_id: Option<String>,
        status: Option<u16>,
        result: Value,
    ) {
        let generation = match self.effects.get(&step) {
            Some(past) if matches!(past.outcome, PastOutcome::Undone) => past.generation + 1,
            Some(past) => past.generation,
            None => self.intent,
        };
        let past = PastEffect {
            effect: EffectId::derive(self.run, &step, "", generation),
            sent_as: None,
            generation,
            run: self.run,
            kind: FOUND.to_owned(),
            connection: None,
            fingerprint: Fingerprint::of(&Value::Null),
            outcome: PastOutcome::Done {
                external_id,
                status,
                result,
            },
            step: step.clone(),
        };
        if let Some(undone) = step.strip_suffix(UNDO)
            && let Some(of) = self.effects.get_mut(undone)
        {
            of.outcome = PastOutcome::Undone;
        }
        self.effects.insert(step, past);
    }
}
