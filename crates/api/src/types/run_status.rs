//! The state of a run, in one word.

use std::fmt;
use std::str::FromStr;

use semel_model::run::RunState;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The state of a run in one word. *Active* stands for four words where the server did not read the
/// queue.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Queued, running, waiting or retrying; the server did not look which.
    Active,
    /// Due, and no worker holds it yet.
    Queued,
    /// A worker holds it.
    Running,
    /// It waits for a timer or a callback.
    Waiting,
    /// It rests before another attempt.
    Retrying,
    /// An effect may or may not have happened.
    InDoubt,
    /// Retries are used up and nothing happened; an operator decides.
    NeedsReview,
    /// Taken again and again without progress.
    Quarantined,
    /// Ended, with a result.
    Succeeded,
    /// Ended, with a fault.
    Failed,
    /// Ended by an operator.
    Cancelled,
    /// Ended because another run of its object took its place.
    Superseded,
}

/// The text names no status.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected one of active, queued, running, waiting, retrying, in_doubt, needs_review, \
     quarantined, succeeded, failed, cancelled, superseded"
)]
pub struct RunStatusError;

impl RunStatus {
    /// Every status.
    pub const ALL: [Self; 12] = [
        Self::Active,
        Self::Queued,
        Self::Running,
        Self::Waiting,
        Self::Retrying,
        Self::InDoubt,
        Self::NeedsReview,
        Self::Quarantined,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
        Self::Superseded,
    ];

    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Retrying => "retrying",
            Self::InDoubt => "in_doubt",
            Self::NeedsReview => "needs_review",
            Self::Quarantined => "quarantined",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Superseded => "superseded",
        }
    }

    /// The stored state of a run in this state.
    pub fn state(self) -> RunState {
        match self {
            Self::Active | Self::Queued | Self::Running | Self::Waiting | Self::Retrying => {
                RunState::Active
            }
            Self::InDoubt => RunState::InDoubt,
            Self::NeedsReview => RunState::NeedsReview,
            Self::Quarantined => RunState::Quarantined,
            Self::Succeeded => RunState::Succeeded,
            Self::Failed => RunState::Failed,
            Self::Cancelled => RunState::Cancelled,
            Self::Superseded => RunState::Superseded,
        }
    }

    /// Whether nothing more will happen to the run.
    pub fn is_ended(self) -> bool {
        self.state().is_ended()
    }
}

impl From<RunState> for RunStatus {
    fn from(state: RunState) -> Self {
        match state {
            RunState::Active => Self::Active,
            RunState::InDoubt => Self::InDoubt,
            RunState::NeedsReview => Self::NeedsReview,
            RunState::Quarantined => Self::Quarantined,
            RunState::Succeeded => Self::Succeeded,
            RunState::Failed => Self::Failed,
            RunState::Cancelled => Self::Cancelled,
            RunState::Superseded => Self::Superseded,
        }
    }
}

impl FromStr for RunStatus {
    type Err = RunStatusError;

    fn from_str(text: &str) -> Result<Self, RunStatusError> {
        Self::ALL
            .into_iter()
            .find(|status| status.as_str() == text)
            .ok_or(RunStatusError)
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_reads_back_as_it_is_written() {
        for status in RunStatus::ALL {
            let wire = serde_json::to_value(status).unwrap();

            assert_eq!(wire, status.as_str(), "the wire and the word agree");
            assert_eq!(status.as_str().parse(), Ok(status));
        }
    }
}
