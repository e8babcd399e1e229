//! Guards: what makes an effect safe to repeat.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How an effect is made safe, and so what a crash or a lost answer leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Guard {
    /// Effect and marker commit together; afterwards the marker tells.
    Transaction,
    /// The destination honours Semel's key: same key, same bytes, within its window.
    Key,
    /// Repeating is harmless by nature: a `PUT` to an id, a `DELETE`, a conditional write.
    Natural,
    /// A read tells whether it happened.
    Probe,
    /// None of these: in doubt, and an operator settles it.
    Review,
    /// Deliberately additive: the author accepts repeats, with a reason.
    Repeat,
}

/// The text names no guard.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected one of transaction, key, natural, probe, review, repeat")]
pub struct GuardError;

impl Guard {
    /// Every guard, in the order in which the documentation lists them.
    pub const ALL: [Self; 6] = [
        Self::Transaction,
        Self::Key,
        Self::Natural,
        Self::Probe,
        Self::Review,
        Self::Repeat,
    ];

    /// The guard's name, as authors write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transaction => "transaction",
            Self::Key => "key",
            Self::Natural => "natural",
            Self::Probe => "probe",
            Self::Review => "review",
            Self::Repeat => "repeat",
        }
    }
}

impl FromStr for Guard {
    type Err = GuardError;

    fn from_str(text: &str) -> Result<Self, GuardError> {
        Self::ALL
            .into_iter()
            .find(|guard| guard.as_str() == text)
            .ok_or(GuardError)
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
