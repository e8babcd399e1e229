//! Triggers: what starts runs.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The kind of trigger that a delivery came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TriggerKind {
    /// A request to a hook's address.
    Webhook,
    /// A program that starts a run through the API.
    Api,
    /// A person who starts a run.
    Manual,
    /// An event that a flow emitted.
    Event,
    /// Another flow that calls this one.
    Call,
    /// An instant that the flow's schedule names.
    Schedule,
    /// An item of the flow's `reconcile` list that no delivery had brought.
    Reconcile,
}

impl TriggerKind {
    /// The trigger's name, as authors write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Api => "api",
            Self::Manual => "manual",
            Self::Event => "event",
            Self::Call => "call",
            Self::Schedule => "schedule",
            Self::Reconcile => "reconcile",
        }
    }
}

impl fmt::Display for TriggerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What happens to a delivery that brings a known key with another payload. Never a second run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mismatch {
    /// Refused with 422, and recorded.
    #[default]
    Reject,
    /// Answered as a repeat of the first, and recorded.
    Accept,
    /// Held with its payload for an operator, and answered 202.
    Hold,
}
