//! Outcomes: how a command ended, as a word for programs and as an exit code.
//!
//! This is the one list that the binary's exit codes come from.

use semel_model::run::RunState;
use serde::Serialize;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// The request succeeded.
    Done,
    /// It failed.
    Failed,
    /// The command line cannot be understood.
    Usage,
    /// The run has not ended yet.
    Running,
    /// Whether an effect happened is unknown; an operator settles it.
    InDoubt,
    /// It does not exist.
    NotFound,
    /// It conflicts with something that exists.
    Conflict,
    /// The token does not permit this.
    Denied,
    /// The server does not answer.
    Unreachable,
}

impl Outcome {
    /// The code that the process exits with.
    pub(crate) const fn exit_code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Running => 3,
            Self::InDoubt => 4,
            Self::NotFound => 5,
            Self::Conflict => 6,
            Self::Denied => 7,
            Self::Unreachable => 8,
        }
    }

    /// The outcome of a command that has the outcome of a run.
    pub(crate) const fn of_run(state: RunState) -> Self {
        match state {
            RunState::Active => Self::Running,
            RunState::InDoubt => Self::InDoubt,
            RunState::Succeeded => Self::Done,
            // A run that a person has to look at did not work out, though it may yet.
            RunState::NeedsReview
            | RunState::Quarantined
            | RunState::Failed
            | RunState::Cancelled
            | RunState::Superseded => Self::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_in_doubt_is_neither_done_nor_failed() {
        assert_eq!(Outcome::of_run(RunState::InDoubt).exit_code(), 4);
        assert_eq!(Outcome::of_run(RunState::Active).exit_code(), 3);
        assert_eq!(Outcome::of_run(RunState::Succeeded).exit_code(), 0);
        assert_eq!(Outcome::of_run(RunState::Failed).exit_code(), 1);
    }
}
