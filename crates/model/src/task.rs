//! Tasks: work that an outside program claims from a queue.
//!
//! ```text
//! Open ──claimed──▶ Held ──┬──▶ Done
//!  ▲ │                     ├──▶ Failed ──┐
//!  │ │                     └──▶ Lost ────┤    its lease ran out, or its worker cannot say
//!  │ └──▶ Withdrawn                      │
//!  └─────────────── the next attempt ────┘
//! ```
//!
//! A worker moves a task only under the token of its claim; the run alone opens it again.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The stored state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// No worker has it.
    Open,
    /// A worker has it.
    Held,
    /// A worker did it.
    Done,
    /// A worker says that it did not happen.
    Failed,
    /// Whether it happened is unknown: its worker was lost, or cannot tell.
    Lost,
    /// The run no longer wants it; no worker had it.
    Withdrawn,
}

impl TaskState {
    /// Every state.
    pub const ALL: [Self; 6] = [
        Self::Open,
        Self::Held,
        Self::Done,
        Self::Failed,
        Self::Lost,
        Self::Withdrawn,
    ];

    /// The state's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Held => "held",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Lost => "lost",
            Self::Withdrawn => "withdrawn",
        }
    }
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text names no state.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected open, held, done, failed, lost or withdrawn")]
pub struct TaskStateError;

impl FromStr for TaskState {
    type Err = TaskStateError;

    fn from_str(text: &str) -> Result<Self, TaskStateError> {
        Self::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or(TaskStateError)
    }
}
