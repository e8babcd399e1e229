//! Why a held delivery is not decided.

use semel_model::RunId;
use semel_store::audit::ReasonError;
use semel_store::duplicates::{DecisionKind, DecisionView};

use crate::ingest::IntakeError;
use crate::unavailable::unavailable_from_store;

/// Why a held delivery is not decided.
#[derive(Debug, thiserror::Error)]
pub enum HeldError {
    /// There is no such delivery.
    #[error("there is no such delivery")]
    Unknown,
    /// Another decision was first.
    #[error("{}", describe(.0))]
    Decided(Box<DecisionView>),
    /// It is not held, or cannot be let in like this.
    #[error("{0}")]
    Unfit(String),
    /// Its flow has no live release.
    #[error(
        "the flow `{0}` has no live release: promote one and accept it again, or dismiss it; nothing \
         is decided"
    )]
    NotLive(String),
    /// Its run was made, and the decision that it follows from is gone or another by now.
    #[error("{run} was made of it, but {}: cancel the run if it should not be", instead(.now.as_deref()))]
    Overtaken {
        /// The run under the new key.
        run: RunId,
        /// What is recorded instead.
        now: Option<Box<DecisionView>>,
    },
    /// Its flow does not take it.
    #[error(transparent)]
    Intake(IntakeError),
    /// The reason cannot be recorded; nothing was done.
    #[error(transparent)]
    Reason(#[from] ReasonError),
    /// The database did not answer in time: repeating the command is safe.
    #[error("the decision could not be stored: {0}")]
    Unavailable(String),
}

unavailable_from_store!(HeldError);

impl From<IntakeError> for HeldError {
    fn from(error: IntakeError) -> Self {
        if let IntakeError::Unavailable(reason) = error {
            Self::Unavailable(reason)
        } else {
            Self::Intake(error)
        }
    }
}

/// What is recorded where a decision was expected.
fn instead(now: Option<&DecisionView>) -> String {
    now.map_or_else(|| "its record was deleted".to_owned(), describe)
}

/// What was decided, by whom, and what it came to.
fn describe(made: &DecisionView) -> String {
    let (by, at) = (&made.by, made.at);
    match (made.kind, &made.key, made.run) {
        (DecisionKind::NewKey, Some(key), Some(run)) => {
            format!("{by} accepted it as the new key `{key}` at {at}: {run}")
        }
        (DecisionKind::NewKey, Some(key), None) => format!(
            "{by} accepted it as the new key `{key}` at {at}, and its run is not made yet: accept it \
             with the same key"
        ),
        (DecisionKind::Repeat, _, Some(run)) => {
            format!("{by} accepted it as a repeat at {at}: {run}")
        }
        (DecisionKind::NewKey | DecisionKind::Repeat, _, _) => {
            format!("{by} accepted it at {at}")
        }
        (DecisionKind::Dismissed, _, _) => format!("{by} dismissed it at {at}"),
    }
}
