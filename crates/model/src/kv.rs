//! The key-value table of a namespace: small state that flows share.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::json::estimated_json_bytes;
use crate::span::Span;

/// One operation on one entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// The entry's name.
    pub entry: String,
    /// What is done with it.
    #[serde(flatten)]
    pub verb: Verb,
}

/// What is done with an entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case")]
pub enum Verb {
    /// Reads the value; null when there is none.
    Get,
    /// Writes a value.
    Set {
        /// The value.
        value: Value,
        /// Only where there is no value yet.
        if_absent: bool,
        /// Only where this value is there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expect: Option<Value>,
        /// After how long the entry vanishes.
        ttl: Option<Span>,
    },
    /// Adds to a whole number; an absent entry counts as zero.
    Add {
        /// How much.
        by: i64,
        /// After how long the entry vanishes.
        ttl: Option<Span>,
    },
    /// Removes the entry.
    Delete,
    /// Takes the lock of that name, or keeps it for longer.
    Lock {
        /// For how long, unless it is released before.
        lease: Span,
    },
    /// Releases the lock of that name.
    Unlock,
}

impl Operation {
    /// About how many bytes it takes where it is written.
    pub fn estimated_bytes(&self) -> usize {
        let value = match &self.verb {
            Verb::Set { value, expect, .. } => {
                estimated_json_bytes(value) + expect.as_ref().map_or(0, estimated_json_bytes)
            }
            Verb::Get | Verb::Add { .. } | Verb::Delete | Verb::Lock { .. } | Verb::Unlock => 0,
        };
        self.entry.len() + value
    }
}

impl Verb {
    /// Whether it writes a value whatever the entry holds.
    pub fn is_plain_set(&self) -> bool {
        matches!(
            self,
            Self::Set {
                if_absent: false,
                expect: None,
                ..
            }
        )
    }

    /// What the step's result will be, where it does not depend on what the entry held before.
    ///
    /// Such an operation can commit together with what comes next, because the next step can be
    /// rendered before the write is made.
    pub fn known_result(&self) -> Option<Value> {
        match self {
            Self::Set {
                value,
                if_absent: false,
                expect: None,
                ..
            } => Some(value.clone()),
            Self::Delete => Some(Value::Null),
            Self::Get | Self::Set { .. } | Self::Add { .. } | Self::Lock { .. } | Self::Unlock => {
                None
            }
        }
    }
}
