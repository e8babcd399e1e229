//! Runs: one execution of one release for one key.
//!
//! ```text
//!            ┌──────────────── settled by an operator ────────────┐
//!            ▼                                                    │
//! Active ──┬──▶ Stopped (in doubt, needs review, quarantined) ─────┤
//!          ├──▶ Ended (succeeded, failed, cancelled, superseded)  ◀───────────┘
//! ```
//!
//! *Queued*, *running* and *waiting* are stored as one state, `Active`: which of them it is follows
//! from the queue, where it changes often, and is never stored twice.
//!
//! ```compile_fail
//! # use semel_model::run::*;
//! fn flip(run: Run<Ended>) { run.stopped(Reason::InDoubt); }
//! ```

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::RunId;

/// The stored state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Queued, running or waiting.
    Active,
    /// An effect may or may not have happened; an operator settles it.
    InDoubt,
    /// Retries are used up and nothing happened; an operator decides.
    NeedsReview,
    /// Taken five times without progress; kept away from the workers.
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

impl RunState {
    /// Every state.
    pub const ALL: [Self; 8] = [
        Self::Active,
        Self::InDoubt,
        Self::NeedsReview,
        Self::Quarantined,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
        Self::Superseded,
    ];

    /// The state's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::InDoubt => "in_doubt",
            Self::NeedsReview => "needs_review",
            Self::Quarantined => "quarantined",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Superseded => "superseded",
        }
    }

    /// Whether nothing more will happen to the run.
    pub fn is_ended(self) -> bool {
        match self {
            Self::Succeeded | Self::Failed | Self::Cancelled | Self::Superseded => true,
            Self::Active | Self::InDoubt | Self::NeedsReview | Self::Quarantined => false,
        }
    }
}

impl fmt::Display for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text names no state.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a run state")]
pub struct RunStateError;

impl FromStr for RunState {
    type Err = RunStateError;

    fn from_str(text: &str) -> Result<Self, RunStateError> {
        Self::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or(RunStateError)
    }
}

/// A run, in a state the compiler knows.
#[derive(Debug)]
pub struct Run<S> {
    id: RunId,
    state: S,
}

/// Queued, running or waiting: a worker may move it.
#[derive(Debug)]
pub struct Active;

/// Stopped until an operator acts.
#[derive(Debug)]
pub struct Stopped {
    /// What for.
    pub reason: StopReason,
}

/// Nothing more will happen.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    state: EndState,
}

/// Why a run is stopped until an operator acts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// An effect is in doubt.
    InDoubt,
    /// Retries are exhausted.
    NeedsReview,
    /// It makes no progress.
    #[default]
    Quarantined,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndState {
    /// With a result.
    Succeeded,
    /// With a fault.
    Failed,
    /// By an operator.
    Cancelled,
    /// Another run of its object took its place.
    Superseded,
}

impl Run<Active> {
    /// A run that was just accepted or taken.
    pub fn active(id: RunId) -> Self {
        Self { id, state: Active }
    }

    /// Stops the run until an operator acts.
    pub fn stopped(self, reason: StopReason) -> Run<Stopped> {
        Run {
            id: self.id,
            state: Stopped { reason },
        }
    }

    /// Ends the run.
    pub fn ended(self, state: EndState) -> Run<Ended> {
        Run {
            id: self.id,
            state: Ended { state },
        }
    }
}

impl Run<Stopped> {
    /// An operator settled what it was stopped for.
    pub fn resumed(self) -> Run<Active> {
        Run {
            id: self.id,
            state: Active,
        }
    }

    /// An operator ends the run instead.
    pub fn ended(self, state: EndState) -> Run<Ended> {
        Run {
            id: self.id,
            state: Ended { state },
        }
    }
}

impl Run<Ended> {
    /// Proof that the run has ended, for callers that must not act on a live one.
    pub fn proof(&self) -> Ended {
        self.state
    }
}

impl<S: AsState> Run<S> {
    /// The run's identity.
    pub fn id(&self) -> RunId {
        self.id
    }

    /// The state as it is stored.
    pub fn state(&self) -> RunState {
        self.state.as_state()
    }
}

/// A state type that has a stored word.
pub trait AsState {
    /// That word.
    fn as_state(&self) -> RunState;
}

impl AsState for Active {
    fn as_state(&self) -> RunState {
        RunState::Active
    }
}

impl AsState for Stopped {
    fn as_state(&self) -> RunState {
        self.reason.into()
    }
}

impl From<StopReason> for RunState {
    fn from(reason: StopReason) -> Self {
        match reason {
            StopReason::InDoubt => Self::InDoubt,
            StopReason::NeedsReview => Self::NeedsReview,
            StopReason::Quarantined => Self::Quarantined,
        }
    }
}

impl AsState for Ended {
    fn as_state(&self) -> RunState {
        match self.state {
            EndState::Succeeded => RunState::Succeeded,
            EndState::Failed => RunState::Failed,
            EndState::Cancelled => RunState::Cancelled,
            EndState::Superseded => RunState::Superseded,
        }
    }
}
