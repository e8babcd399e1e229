//! What came from outside for the step that a run stands at: a worker's answer, a decision.
//!
//! Only a run that stands at a task or an approval costs the read.

use semel_model::approval::ApprovalDecision;
use semel_model::effect::LedgerEntry;
use semel_model::request::StepRequest;
use semel_model::{EffectId, WaitId};
use semel_store::tasks::TaskSnapshot;

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

/// Who gives the result of the run's current step, where it has to be read when the run is taken.
/// Callbacks and late responses are loaded with the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExternalSource {
    /// Nobody outside.
    Nobody,
    /// The worker that has its task.
    Task(EffectId),
    /// A person who decides its approval.
    Approval(WaitId),
}

/// Where the result of the run's current step comes from.
pub(crate) fn external_source(state: &FoldedRun) -> ExternalSource {
    match &state.current {
        Current::Effect(pending) => match &pending.entry {
            LedgerEntry::Pending(effect) => match &pending.request {
                StepRequest::Task(_) => ExternalSource::Task(effect.id()),
                StepRequest::External(_) | StepRequest::Local(_) => ExternalSource::Nobody,
            },
            LedgerEntry::InDoubt(_)
            | LedgerEntry::Retrying(_)
            | LedgerEntry::Failed(_)
            | LedgerEntry::Done(_) => ExternalSource::Nobody,
        },
        Current::Approving(approving) => ExternalSource::Approval(approving.wait),
        Current::Fresh
        | Current::Reading(_)
        | Current::Waiting { .. }
        | Current::Fan(_)
        | Current::Broken(_) => ExternalSource::Nobody,
    }
}
