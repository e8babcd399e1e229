//! Whom a sleeping run listens to, besides its own time.

use semel_model::{EffectId, RunId, WaitId};
use uuid::Uuid;

use crate::{approvals, late_responses, tasks};

/// Who may have answered while the run was in a worker's hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeSource {
    /// Nothing that would not find the run by itself.
    Nothing,
    /// The worker that has its task.
    Task(EffectId),
    /// A person who decides its approval.
    Approval(WaitId),
    /// A lost worker that learned what happened to the run's effect in doubt.
    LateResponse(RunId, EffectId),
}

impl WakeSource {
    /// What makes the run due where the answer is there, and whose.
    pub(crate) fn statement(self) -> Option<(&'static str, Vec<Uuid>)> {
        match self {
            Self::Nothing => None,
            Self::Task(task) => Some((tasks::HEAR, vec![*task.as_uuid()])),
            Self::Approval(wait) => Some((approvals::HEAR, vec![*wait.as_uuid()])),
            Self::LateResponse(run, effect) => {
                let ids = vec![*run.as_uuid(), *effect.as_uuid()];
                Some((late_responses::HEAR_OF_ONE, ids))
            }
        }
    }
}
