//! Waits: durable pauses of a run.
//!
//! ```text
//!            ┌──▶ Answered     a callback; also before the wait opens, and kept until it does
//! Open ──────┼──▶ Elapsed      the timer, or the time limit
//!            └──▶ Cancelled    the run ended first
//! ```
//!
//! Exactly one of the ends is reached. A later request learns which it was.
//!
//! ```compile_fail
//! # use semel_model::wait::*;
//! fn again(wait: Wait<Elapsed>) { wait.answered(serde_json::Value::Null); }
//! ```

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::id::WaitId;

/// What the record says of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitState {
    /// Nothing came yet.
    Open,
    /// A callback came.
    Answered,
    /// Its time came.
    Elapsed,
    /// Its run ended first.
    Cancelled,
}

impl WaitState {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Open, Self::Answered, Self::Elapsed, Self::Cancelled];

    /// The state's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Answered => "answered",
            Self::Elapsed => "elapsed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for WaitState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text names no state.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a wait state")]
pub struct WaitStateError;

impl FromStr for WaitState {
    type Err = WaitStateError;

    fn from_str(text: &str) -> Result<Self, WaitStateError> {
        Self::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or(WaitStateError)
    }
}

/// A wait, in a state the compiler knows.
#[derive(Debug)]
pub struct Wait<S> {
    id: WaitId,
    state: S,
}

/// Nothing came yet.
#[derive(Debug)]
pub struct Open;

/// A callback came.
#[derive(Debug)]
pub struct Answered {
    /// What it brought.
    pub payload: Value,
}

/// Its time came.
#[derive(Debug)]
pub struct Elapsed;

/// Its run ended first.
#[derive(Debug)]
pub struct Cancelled;

impl Wait<Open> {
    /// A wait that opens.
    pub fn open(id: WaitId) -> Self {
        Self { id, state: Open }
    }

    /// A callback came first.
    pub fn answered(self, payload: Value) -> Wait<Answered> {
        Wait {
            id: self.id,
            state: Answered { payload },
        }
    }

    /// Its time came first.
    pub fn elapsed(self) -> Wait<Elapsed> {
        Wait {
            id: self.id,
            state: Elapsed,
        }
    }

    /// Its run ended first.
    pub fn cancelled(self) -> Wait<Cancelled> {
        Wait {
            id: self.id,
            state: Cancelled,
        }
    }
}

impl<S> Wait<S> {
    /// The wait's identity.
    pub fn id(&self) -> WaitId {
        self.id
    }

    /// What is true in this state.
    pub fn state(&self) -> &S {
        &self.state
    }
}
