//! What the script has the world do with business keys.

use std::time::Duration;

use semel_model::event::{Event, NameEvent, NameHolder, UndoneName};
use semel_model::run::StopReason;
use semel_model::{EffectId, Fault, NamedEffectId, RunId};
use serde_json::json;
use uuid::Uuid;

use super::super::Simulation;
use crate::decide::NameRequest;
use crate::state::NameStanding;

impl Simulation<'_> {
    /// The name is free, held by another, or done by another.
    pub(super) fn begin_named(&mut self, asked: NameRequest) -> bool {
        let step = asked.step;
        let known = self.state.names.get(&step).map(|it| &it.standing);
        if known.is_none_or(|standing| *standing == NameStanding::Over) {
            self.name_event(
                &step,
                NameEvent::Asked {
                    name: NamedEffectId::from_uuid(Uuid::from_u128(7)),
                    scope: asked.scope,
                    key: asked.key,
                    fingerprint: asked.fingerprint,
                    generation: 0,
                },
            );
        }
        let by = NameHolder::Run(RunId::from_uuid(Uuid::from_u128(8)));
        let effect = EffectId::from_uuid(Uuid::from_u128(9));
        match self.choose(4) {
            1 => {
                let in_doubt = self.choose(2) == 0;
                self.name_event(
                    &step,
                    NameEvent::Waiting {
                        behind: by,
                        in_doubt,
                    },
                );
                return self.wake(Some(self.now + Duration::from_secs(1)));
            }
            2 => self.name_event(
                &step,
                NameEvent::Reused {
                    effect,
                    by,
                    external_id: None,
                    status: None,
                    result: json!({}),
                },
            ),
            _ => self.name_event(&step, NameEvent::Held { token: 1, effect }),
        }
        true
    }

    /// The name lets the run undo the effect, or others reused it.
    pub(super) fn begin_undo(&mut self) -> bool {
        let step = self.step();
        if self.choose(3) == 1 {
            let (count, by) = (1, Vec::new());
            self.name_event(&step, NameEvent::Shared { count, by });
            let fault = Fault::permanent("key-reused", "others reused it");
            return self.park(StopReason::NeedsReview, fault);
        }
        let held = UndoneName {
            name: NamedEffectId::from_uuid(Uuid::from_u128(7)),
            token: 1,
        };
        self.name_event(&step, NameEvent::Undoing { held: Some(held) });
        true
    }

    fn name_event(&mut self, step: &str, named: NameEvent) {
        let step = step.to_owned();
        self.record(Event::Named { step, named });
    }
}
