//! What came from outside for the step that a run stands at: a worker's answer, a decision.
//!
//! Only a run that stands at a task or an approval costs the read.

use semel_model::approval::Decision;
use semel_model::effect::Entry;
use semel_model::request::StepRequest;
use semel_store::tasks::Seen;
use semel_store::wake_source::WakeSource;

use crate::state::{Current, RunState};

/// What came from outside.
#[derive(Clone, Debug, Default)]
pub enum ExternalResult {
    /// Nothing.
    #[default]
    Nothing,
    /// A task has an outcome.
    Task(Seen),
    /// A person decided.
    Decision(Decision),
}

impl ExternalResult {
    /// The outcome of this attempt at a task.
    pub(crate) fn task(&self, attempt: u32) -> Option<&Seen> {
        match self {
            Self::Task(seen) => (u32::try_from(seen.attempt) == Ok(attempt)).then_some(seen),
            Self::Nothing | Self::Decision(_) => None,
        }
    }

    /// What was decided.
    pub(crate) fn decision(&self) -> Option<&Decision> {
        match self {
            Self::Decision(decision) => Some(decision),
            Self::Nothing | Self::Task(_) => None,
        }
    }
}

/// What may wake a run.
pub(crate) fn wake_source(state: &RunState) -> WakeSource {
    match &state.current {
        Current::Effect(pending) => match (&pending.entry, &pending.request) {
            (Entry::Pending(effect), StepRequest::Task(_)) => WakeSource::Task(effect.id()),
            (Entry::InDoubt(effect), _) => WakeSource::Evidence(state.run, effect.id()),
            _ => WakeSource::Nothing,
        },
        Current::Approving(approving) => WakeSource::Approval(approving.wait),
        Current::Fresh
        | Current::Reading(_)
        | Current::Waiting { .. }
        | Current::Fan(_)
        | Current::Broken(_) => WakeSource::Nothing,
    }
}
