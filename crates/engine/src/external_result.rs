//! What came from outside for the step that a run stands at: a worker's answer, a decision.
//!
//! Only a run that stands at a task or an approval costs the read.

use semel_model::approval::ApprovalDecision;
use semel_model::effect::LedgerEntry;
use semel_model::request::StepRequest;
use semel_store::tasks::TaskSnapshot;
use semel_store::wake_source::WakeSource;

use crate::state::{Current, FoldedRun};

/// What came from outside.
#[derive(Clone, Debug, Default)]
pub enum ExternalResult {
    /// Nothing.
    #[default]
    Nothing,
    /// A task has an outcome.
    Task(TaskSnapshot),
    /// A person decided.
    Decision(ApprovalDecision),
}

impl ExternalResult {
    /// The outcome of this attempt at a task.
    pub(crate) fn task(&self, attempt: u32) -> Option<&TaskSnapshot> {
        match self {
            Self::Task(seen) => (u32::try_from(seen.attempt) == Ok(attempt)).then_some(seen),
            Self::Nothing | Self::Decision(_) => None,
        }
    }

    /// What was decided.
    pub(crate) fn decision(&self) -> Option<&ApprovalDecision> {
        match self {
            Self::Decision(decision) => Some(decision),
            Self::Nothing | Self::Task(_) => None,
        }
    }
}

/// What may wake a run.
pub(crate) fn wake_source(state: &FoldedRun) -> WakeSource {
    match &state.current {
        Current::Effect(pending) => match &pending.entry {
            LedgerEntry::Pending(effect) => match &pending.request {
                StepRequest::Task(_) => WakeSource::Task(effect.id()),
                StepRequest::External(_) | StepRequest::Local(_) => WakeSource::Nothing,
            },
            LedgerEntry::InDoubt(effect) => WakeSource::LateResponse(state.run, effect.id()),
            LedgerEntry::Retrying(_) | LedgerEntry::Failed(_) | LedgerEntry::Done(_) => {
                WakeSource::Nothing
            }
        },
        Current::Approving(approving) => WakeSource::Approval(approving.wait),
        Current::Fresh
        | Current::Reading(_)
        | Current::Waiting { .. }
        | Current::Fan(_)
        | Current::Broken(_) => WakeSource::Nothing,
    }
}
