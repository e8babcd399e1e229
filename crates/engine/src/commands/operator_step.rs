//! One done effect of an ended run, undone or performed again by an operator.
//!
//! The run stands at that one step again, under the ledger's rules for any step, and then ends as it
//! had ended. An effect that was performed again has another key, and the old one is no longer the
//! step's effect: repeating the command changes nothing.

use std::sync::Arc;

use semel_model::event::{Event, OperatorStep, StepVerb};
use semel_model::run::{EndState, RunState};
use semel_model::{EffectId, Fault, PastEffect, PastOutcome, RunId};
use semel_store::audit::{AuditEntry, ReasonError};
use semel_store::runs::RunView;
use semel_store::{effects, runs};
use serde_json::Value;

use crate::catalogue::Release;
use crate::commands::connection::Actor;
use crate::runtime::Runtime;
use crate::turn::earlier::read_ledger;
use crate::turn::parent_state::Unread;
use crate::unavailable::unavailable_from_store;

/// Why an effect is not undone or performed again.
#[derive(Debug, thiserror::Error)]
pub enum OperatorStepError {
    /// There is no such effect.
    #[error("there is no such effect")]
    Unknown,
    /// The effect, or its run, does not allow it.
    #[error("{0}")]
    Unfit(String),
    /// The reason cannot be recorded; nothing was done.
    #[error(transparent)]
    Reason(#[from] ReasonError),
    /// Another request was faster.
    #[error("the run has changed since; look at it again")]
    Busy,
    /// The database did not answer in time.
    #[error("the decision could not be stored: {0}")]
    Unavailable(String),
}

unavailable_from_store!(OperatorStepError);

impl Runtime {
    /// Has one done effect undone or performed again, in an operator's name. When this returns, the
    /// decision is committed. Returns the run.
    pub async fn perform_for_operator(
        self: &Arc<Self>,
        by: Actor<'_>,
        effect: EffectId,
        verb: StepVerb,
        reason: &str,
    ) -> Result<RunId, OperatorStepError> {
        let name = match verb {
            StepVerb::Undo => "effect.undo",
            StepVerb::Redo => "effect.redo",
        };
        let act = AuditEntry::new(by.namespace_id, by.actor, name, &effect.to_string());
        let act = act.because(reason)?;
        let cell = &self.cell;
        let found = effects::find(cell.of(effect), by.namespace_id, effect).await?;
        let found = found.ok_or(OperatorStepError::Unknown)?;
        let view = runs::find(cell.of(found.run), by.namespace_id, found.run).await?;
        let view = view.ok_or(OperatorStepError::Unknown)?;
        if let Some(later) = runs::find_successor(cell.of(view.id), view.id).await? {
            let message = format!("{later} has the key now: use the effects of that run");
            return Err(OperatorStepError::Unfit(message));
        }
        let (release, past) = self.step_of(by.namespace_id, &view, &found.step).await?;
        may_be(verb, effect, past.as_ref(), (&view, &release))?;
        let asked = asked(verb, &found.step, &view, (by.actor, reason))?;
        let event = Event::OperatorStep(asked);
        let act = act.about(view.id);
        let keep = release.flow.keep;
        if !runs::reopen_for_step(cell.of(view.id), view.id, &event, &act, keep).await? {
            return Err(OperatorStepError::Busy);
        }
        self.signals.wake.notify_one();
        Ok(view.id)
    }

    /// The release that a run is on, and what the ledger knows of one of its steps.
    async fn step_of(
        self: &Arc<Self>,
        namespace_id: i32,
        view: &RunView,
        step: &str,
    ) -> Result<(Arc<Release>, Option<PastEffect>), OperatorStepError> {
        let found = runs::find_release(self.cell.of(view.id), namespace_id, view.id).await?;
        let (release, _) = found.ok_or(OperatorStepError::Unknown)?;
        let release = self.catalogue.get(release).await?;
        let gone = || OperatorStepError::Unfit("its release cannot be read".to_owned());
        let release = release.ok_or_else(gone)?;
        let ledger = read_ledger(self, namespace_id, view.id, 0).await?;
        Ok((release, ledger.and_then(|it| it.at(step).cloned())))
    }
}

impl From<Unread> for OperatorStepError {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Unavailable(reason) => Self::Unavailable(reason),
            Unread::Newer(_) | Unread::Damaged(_) | Unread::Inconsistent(_) => {
                Self::Unfit(format!("its journal cannot be read: {unread}"))
            }
        }
    }
}

/// Whether the effect is what the step came to last, and is done.
fn may_be(
    verb: StepVerb,
    effect: EffectId,
    past: Option<&PastEffect>,
    (view, release): (&RunView, &Release),
) -> Result<(), OperatorStepError> {
    let unfit = |message: String| Err(OperatorStepError::Unfit(message));
    let Some(past) = past else {
        return unfit("it is not settled".to_owned());
    };
    if past.effect != effect {
        return unfit(format!("what is done at its step is {}", past.effect));
    }
    let step = release.flow.find_step(&past.step);
    if verb == StepVerb::Redo && step.is_some_and(|step| step.named.is_some()) {
        // Its business key is done, and would give back what was done.
        return unfit(format!(
            "`{}` is performed once per business key: undo it, semel effect undo {effect}, and the \
             next run of the business key performs it again",
            past.step
        ));
    }
    match (&past.outcome, verb) {
        (PastOutcome::Done { .. }, StepVerb::Redo) | (PastOutcome::Undone, StepVerb::Redo) => {
            Ok(())
        }
        (PastOutcome::Done { .. }, StepVerb::Undo) => {
            match step.is_some_and(|step| step.undo.is_some()) {
                true => Ok(()),
                false => unfit(format!("`{}` declares no `undo`", past.step)),
            }
        }
        (PastOutcome::Undone, StepVerb::Undo) => unfit("it is undone already".to_owned()),
        // A repeat that was refused: the run that it belongs to cannot be resumed.
        (PastOutcome::Failed { .. }, StepVerb::Redo) if view.state != RunState::Failed => Ok(()),
        (PastOutcome::Failed { .. }, _) => {
            unfit("it did not happen: resume its run instead".to_owned())
        }
        (PastOutcome::InDoubt { .. }, _) => unfit(
            "an operator failed it in doubt, so it may have happened: resume its run".to_owned(),
        ),
        (PastOutcome::DoubtErased { .. }, _) => {
            unfit("it was left in doubt, and its request was erased".to_owned())
        }
    }
}

/// What the run does, and how it had ended.
fn asked(
    verb: StepVerb,
    step: &str,
    view: &RunView,
    (by, reason): (&str, &str),
) -> Result<OperatorStep, OperatorStepError> {
    let unfit = |message: &str| Err(OperatorStepError::Unfit(message.to_owned()));
    if view.parent.is_some() {
        return unfit("it belongs to an item or a branch: only steps of the run itself can be");
    }
    let state = match view.state {
        RunState::Succeeded => EndState::Succeeded,
        RunState::Failed => EndState::Failed,
        RunState::Cancelled => EndState::Cancelled,
        RunState::Superseded => return unfit("a later run has its key: use that run's effect"),
        RunState::Active | RunState::InDoubt | RunState::NeedsReview | RunState::Quarantined => {
            return unfit("its run has not ended");
        }
    };
    let fault = view.fault.as_deref();
    let fault: Option<Fault> = fault.and_then(|text| serde_json::from_str(text).ok());
    let result = view.result.as_deref();
    let result: Option<Value> = result.and_then(|text| serde_json::from_str(text).ok());
    Ok(OperatorStep {
        verb,
        step: step.to_owned(),
        by: by.to_owned(),
        reason: reason.trim().to_owned(),
        state,
        result: result.unwrap_or_default(),
        fault,
    })
}
