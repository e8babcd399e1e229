//! Effects: entries of the ledger, each one change to the outside world.
//!
//! ```text
//!             ┌──▶ Done
//! Pending ────┼──▶ Failed
//!    ▲        ├──▶ Retrying ──▶ Pending          known not to have happened; the next attempt
//!    │        └──▶ InDoubt ──▶ Done | Failed
//!    └──── with a licence ────┘
//! Failed ──▶ Retrying                             its run is resumed
//! Retrying ──▶ InDoubt                            an earlier attempt may have happened
//! ```
//!
//! `Pending` is committed before the first byte leaves. An entry found `Pending` by another worker
//! than the one that wrote it is in doubt. Nothing repeats a doubt without a [`Licence`], and only
//! a guard or an operator can make one.
//!
//! ```compile_fail
//! # use semel_model::effect::*;
//! fn reopen(effect: Effect<Failed>) -> Effect<Pending> { effect.again() }
//! ```
//! ```compile_fail
//! # use semel_model::effect::*;
//! fn blindly(effect: Effect<InDoubt>) -> Effect<Pending> { effect.again() }
//! ```

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::guard::Guard;
use crate::id::EffectId;
use crate::outcome::{Doubt, Fault};

/// What the ledger says of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectState {
    /// The intent is durable; the attempt may have begun.
    Pending,
    /// Known not to have happened; another attempt follows.
    Retrying,
    /// It happened.
    Done,
    /// It did not happen, and will not.
    Failed,
    /// Whether it happened is unknown.
    InDoubt,
}

impl EffectState {
    /// Every state.
    pub const ALL: [Self; 5] = [
        Self::Pending,
        Self::Retrying,
        Self::Done,
        Self::Failed,
        Self::InDoubt,
    ];

    /// The state's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Retrying => "retrying",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::InDoubt => "in_doubt",
        }
    }
}

impl fmt::Display for EffectState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text names no state.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an effect state")]
pub struct EffectStateError;

impl FromStr for EffectState {
    type Err = EffectStateError;

    fn from_str(text: &str) -> Result<Self, EffectStateError> {
        Self::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or(EffectStateError)
    }
}

/// One entry of the ledger, in a state the compiler knows.
#[derive(Clone, Debug)]
pub struct Effect<S> {
    id: EffectId,
    guard: Guard,
    attempt: u32,
    /// Whether an earlier attempt ended in doubt and was repeated.
    doubted: bool,
    state: S,
}

/// The intent is durable.
#[derive(Clone, Debug)]
pub struct Pending;

/// Known not to have happened; resting before the next attempt.
#[derive(Clone, Debug)]
pub struct Retrying {
    /// Why it did not happen.
    pub fault: Fault,
}

/// It happened.
#[derive(Clone, Debug)]
pub struct Done {
    /// What confirms it.
    pub by: ConfirmedBy,
}

/// It did not happen, and will not.
#[derive(Clone, Debug)]
pub struct Failed {
    /// Why.
    pub fault: Fault,
}

/// Whether it happened is unknown.
#[derive(Clone, Debug)]
pub struct InDoubt {
    /// What was seen.
    pub doubt: Doubt,
}

/// What confirms that an effect happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfirmedBy {
    /// The destination's answer.
    Answer,
    /// The commit that carried the effect itself.
    Commit,
    /// A read that found it.
    Probe,
    /// A read that found it before anything was sent: something else made it.
    FoundBefore,
    /// A late response, recorded by a worker that had lost its lease.
    LateResponse,
    /// An operator.
    Operator,
}

/// The right to perform a doubtful effect again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Licence {
    /// The destination honours the key and still remembers it.
    Key,
    /// Repeating is harmless by nature.
    Natural,
    /// The author accepted repeats.
    Repeat,
    /// A probe looked and found nothing.
    Absent,
    /// The effect commits with its outcome, and there is no outcome.
    Uncommitted,
    /// The destination keeps a marker that commits with the effect: a repeat finds it.
    Marker,
    /// An operator says that it did not happen, and nothing of the last attempt can still arrive.
    Operator,
}

impl Effect<Pending> {
    /// The first intent of an effect.
    pub fn intend(id: EffectId, guard: Guard) -> Self {
        Self {
            id,
            guard,
            attempt: 1,
            doubted: false,
            state: Pending,
        }
    }

    /// The latest intent of an effect that an earlier run of the key left in doubt.
    pub fn taken_over(id: EffectId, guard: Guard, attempt: u32) -> Self {
        Self {
            attempt,
            ..Self::intend(id, guard)
        }
    }

    /// It happened.
    pub fn done(self, by: ConfirmedBy) -> Effect<Done> {
        self.into_state(Done { by })
    }

    /// It did not happen, and another attempt may help.
    pub fn retrying(self, fault: Fault) -> Effect<Retrying> {
        self.into_state(Retrying { fault })
    }

    /// It did not happen, and will not.
    pub fn failed(self, fault: Fault) -> Effect<Failed> {
        self.into_state(Failed { fault })
    }

    /// Whether it happened is unknown.
    pub fn in_doubt(self, doubt: Doubt) -> Effect<InDoubt> {
        self.into_state(InDoubt { doubt })
    }
}

impl Effect<Retrying> {
    /// The next attempt: nothing happened before, so no licence is needed.
    pub fn again(mut self) -> Effect<Pending> {
        self.attempt += 1;
        self.into_state(Pending)
    }

    /// An earlier attempt may have happened.
    pub fn in_doubt(self, doubt: Doubt) -> Effect<InDoubt> {
        self.into_state(InDoubt { doubt })
    }

    /// There will be no further attempt.
    pub fn given_up(self) -> Effect<Failed> {
        let fault = self.state.fault.clone();
        self.into_state(Failed { fault })
    }
}

impl Effect<Failed> {
    /// Its run is resumed. It did not happen, unless an operator had failed it in doubt: then it is
    /// in doubt again.
    pub fn reopened(self) -> Effect<Retrying> {
        let fault = self.state.fault.clone();
        self.into_state(Retrying { fault })
    }
}

impl Effect<InDoubt> {
    /// Evidence shows that it happened.
    pub fn confirmed(self, by: ConfirmedBy) -> Effect<Done> {
        self.into_state(Done { by })
    }

    /// Evidence shows that it did not, or an operator fails it: it is not performed.
    pub fn refuted(self, fault: Fault) -> Effect<Failed> {
        self.into_state(Failed { fault })
    }

    /// The next attempt, by a licence.
    pub fn repeated(mut self, licence: Licence) -> Effect<Pending> {
        self.attempt += 1;
        // A probe, a missing commit or an operator vouch that nothing happened before; the other
        // licences only say that a second time does no harm.
        self.doubted = match licence {
            Licence::Absent | Licence::Uncommitted | Licence::Operator => false,
            Licence::Key | Licence::Natural | Licence::Repeat | Licence::Marker => true,
        };
        self.into_state(Pending)
    }
}

impl<S> Effect<S> {
    /// The effect's identity, which is the key that the destination is sent.
    pub fn id(&self) -> EffectId {
        self.id
    }

    /// How it is made safe.
    pub fn guard(&self) -> Guard {
        self.guard
    }

    /// The number of the latest attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Whether an earlier attempt may have happened.
    pub fn doubted(&self) -> bool {
        self.doubted
    }

    /// What is true in this state.
    pub fn state(&self) -> &S {
        &self.state
    }

    fn into_state<T>(self, state: T) -> Effect<T> {
        let Self {
            id,
            guard,
            attempt,
            doubted,
            state: _,
        } = self;
        Effect {
            id,
            guard,
            attempt,
            doubted,
            state,
        }
    }
}

/// An entry whose state only the record knows.
#[derive(Clone, Debug)]
pub enum LedgerEntry {
    /// See [`Pending`].
    Pending(Effect<Pending>),
    /// See [`Retrying`].
    Retrying(Effect<Retrying>),
    /// See [`Done`].
    Done(Effect<Done>),
    /// See [`Failed`].
    Failed(Effect<Failed>),
    /// See [`InDoubt`].
    InDoubt(Effect<InDoubt>),
}

impl LedgerEntry {
    /// The entry's identity.
    pub fn id(&self) -> EffectId {
        match self {
            Self::Pending(effect) => effect.id(),
            Self::Retrying(effect) => effect.id(),
            Self::Done(effect) => effect.id(),
            Self::Failed(effect) => effect.id(),
            Self::InDoubt(effect) => effect.id(),
        }
    }

    /// How it is made safe.
    pub fn guard(&self) -> Guard {
        match self {
            Self::Pending(effect) => effect.guard(),
            Self::Retrying(effect) => effect.guard(),
            Self::Done(effect) => effect.guard(),
            Self::Failed(effect) => effect.guard(),
            Self::InDoubt(effect) => effect.guard(),
        }
    }

    /// The number of the latest attempt.
    pub fn attempt(&self) -> u32 {
        match self {
            Self::Pending(effect) => effect.attempt(),
            Self::Retrying(effect) => effect.attempt(),
            Self::Done(effect) => effect.attempt(),
            Self::Failed(effect) => effect.attempt(),
            Self::InDoubt(effect) => effect.attempt(),
        }
    }

    /// The state as the record keeps it.
    pub fn state(&self) -> EffectState {
        match self {
            Self::Pending(_) => EffectState::Pending,
            Self::Retrying(_) => EffectState::Retrying,
            Self::Done(_) => EffectState::Done,
            Self::Failed(_) => EffectState::Failed,
            Self::InDoubt(_) => EffectState::InDoubt,
        }
    }
}
