//! The look before the first attempt: whether an effect is there already.
//!
//! ```text
//! look ──┬─ found ──▶ done, in a commit of its own: nothing is sent
//!        ├─ absent ─▶ the intent, in one commit with what was seen
//!        └─ failed ─▶ asked again, as a read is
//! ```
//!
//! Until one of these commits, nothing is recorded: a worker that takes the run over looks again.

use semel_model::effect::ConfirmedBy;
use semel_model::event::{Event, ProbeFinding};
use semel_model::request::ExternalRequest;
use semel_model::{EffectId, Fault, Fingerprint, SeededBug};
use semel_store::duplicates::{DuplicateVerdict, StoppedRepeat, Subject};
use semel_store::journal::LeaseChange;
use semel_store::tallies::TallyKind;

use super::reads::{Shown, shown};
use super::{Turn, TurnError};
use crate::decide;

impl Turn {
    /// Asks whether the effect of the current step is there already.
    pub(super) async fn look_first(&mut self, request: &ExternalRequest) -> Result<(), TurnError> {
        self.commit_what_matters().await?;
        let outcome = self.ask(request).await;
        if self.rest_if_held_back(&outcome).await? {
            return Ok(());
        }
        let step = self.step();
        let name = step.id.to_string();
        let Some(probe) = decide::probe_of(step) else {
            unreachable!("only a step with a probe looks first");
        };
        let seen = shown(probe, &outcome);
        let found = match seen {
            Shown::Found(response) if !SeededBug::FoundBeforeIgnored.is_seeded() => {
                decide::found(step, probe, response, ConfirmedBy::FoundBefore)
            }
            Shown::Found(_) | Shown::Absent => {
                self.looked = self.state.cursor;
                let seen = ProbeFinding::Absent;
                return self.record(Event::Probed { step: name, seen });
            }
            Shown::Unclear(fault) => {
                let message = format!("probe before the first attempt: {}", fault.message);
                let failed = self.read_failed(name, Fault { message, ..fault });
                return self.record(failed);
            }
        };
        let effect = self.state.effect_id(&name);
        let found = self.settle_large(&outcome, found).await;
        self.record(found)?;
        self.commit(LeaseChange::Keep).await?;
        self.count_found(effect);
        Ok(())
    }

    /// Records a duplicate that the destination stopped: something else made what the run is for.
    fn count_found(&self, effect: EffectId) {
        self.runtime.metrics.duplicates.add_one();
        self.tally(TallyKind::Repeat, 1);
        self.runtime.writers.duplicates.add(StoppedRepeat {
            subject: Subject::Found(effect),
            namespace_id: self.release.namespace_id,
            run: self.run,
            fingerprint: Fingerprint::of(&self.state.input),
            kind: DuplicateVerdict::Repeat,
            payload: None,
            arrival: None,
            at: self.runtime.clock.now(),
        });
    }
}
