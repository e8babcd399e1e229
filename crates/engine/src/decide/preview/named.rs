//! What a replay would do at a step with a business key: what is there under the name decides.

use semel_flow::Step;
use semel_model::replay::Forecast;
use semel_model::{EffectId, NamedEffectId, NamedEffectState};
use semel_store::named_effects::{HolderView, NamedEffectView};

use super::super::NameRequest;
use super::Walk;

/// A name that a step asks for, and what is there.
#[derive(Clone, Debug)]
pub struct NameLookup {
    /// The name.
    pub id: NamedEffectId,
    /// What is there; nothing where the name is free.
    pub found: Option<NamedEffectView>,
}

impl Walk<'_> {
    pub(super) fn meet_name(&mut self, step: &Step, asked: NameRequest) -> bool {
        let Some(lookup) = self.about.names.get(step.id.as_str()) else {
            // Looked up before the next walk, which decides.
            self.forecast.asked.push(asked);
            return self.begin(step, Forecast::Waits);
        };
        if let Some(effect) = asked.doubt.filter(|sent| !lookup.id.owns(*sent)) {
            return self.begin(step, Forecast::InDoubt { effect });
        }
        let Some(view) = &lookup.found else {
            return self.perform(step, &asked, EffectId::named(lookup.id, 0));
        };
        match view.state {
            NamedEffectState::Done => self.meet_done(step, &asked, view),
            NamedEffectState::Pending | NamedEffectState::Undoing => {
                self.begin(step, Forecast::Waits)
            }
            NamedEffectState::InDoubt => {
                let effect = view.key();
                self.begin(step, Forecast::InDoubt { effect })
            }
            NamedEffectState::Failed => {
                let other = asked.renews || view.fingerprint != Some(asked.fingerprint);
                let generation = view.generation + u32::from(other);
                self.perform(step, &asked, EffectId::named(view.id, generation))
            }
        }
    }

    fn perform(&mut self, step: &Step, asked: &NameRequest, effect: EffectId) -> bool {
        let request = Some(asked.fingerprint);
        self.begin(step, Forecast::Performed { effect, request })
    }

    fn meet_done(&mut self, step: &Step, asked: &NameRequest, view: &NamedEffectView) -> bool {
        let (code, said) = if view.action != asked.action {
            ("key-names-other-effect", "names an effect of another kind")
        } else if view.fingerprint != Some(asked.fingerprint) && !asked.accepts_other {
            ("key-other-request", "is done with another request")
        } else {
            let external_id = view.external_id.clone();
            let run = match &view.holder {
                HolderView::Run { run, .. } => *run,
                HolderView::Script { .. } => self.state.run,
            };
            let effect = view.key();
            self.add(
                step,
                Forecast::Skipped {
                    effect,
                    run,
                    external_id,
                },
            );
            let result = view.result.clone().unwrap_or_default();
            let (id, external_id) = (step.id.as_str(), view.external_id.as_deref());
            let flow = self.flow();
            self.state
                .finish_step(flow, id, result, external_id, view.status);
            return true;
        };
        let (code, message) = (code.to_owned(), format!("the key {} {said}", asked.key));
        self.is_not_done(step);
        self.add(step, Forecast::Fails { code, message });
        false
    }
}
