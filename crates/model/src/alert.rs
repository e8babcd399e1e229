//! Alerts: what people must learn of, and the groups that messages about it are sent for.
//!
//! A group is a kind, a flow, a connection and a step. Each group has messages of its own, at most one
//! in a period, and the key of a message is derived from the group and the start of the period.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::id::{EffectId, digest};

/// What an alert is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertKind {
    /// A run stopped because the outcome of an effect is unknown.
    Doubt,
    /// A run used up its retries and needs review.
    NeedsReview,
    /// A run makes no progress and was quarantined.
    Quarantined,
    /// A delivery is held for an operator.
    Held,
    /// A delivery carried a known key and another payload.
    Mismatch,
    /// An approval waits for a decision.
    ApprovalPending,
    /// An approval was not decided in time: people were reminded, or its time is over.
    ApprovalOverdue,
    /// Many duplicates of one flow came within a minute.
    Duplicates,
    /// A connection changed, and a live release has not been rehearsed with it.
    NotProven,
    /// An event, or a run that waits for it, can be read by no version: the event is kept.
    EventUnreadable,
    /// An operator tests where alerts go.
    Test,
}

impl AlertKind {
    /// Every kind.
    pub const ALL: [Self; 11] = [
        Self::Doubt,
        Self::NeedsReview,
        Self::Quarantined,
        Self::Held,
        Self::Mismatch,
        Self::ApprovalPending,
        Self::ApprovalOverdue,
        Self::Duplicates,
        Self::NotProven,
        Self::EventUnreadable,
        Self::Test,
    ];

    /// The word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Doubt => "doubt",
            Self::NeedsReview => "needs_review",
            Self::Quarantined => "quarantined",
            Self::Held => "held",
            Self::Mismatch => "mismatch",
            Self::ApprovalPending => "approval_pending",
            Self::ApprovalOverdue => "approval_overdue",
            Self::Duplicates => "duplicates",
            Self::NotProven => "not_proven",
            Self::EventUnreadable => "event_unreadable",
            Self::Test => "test",
        }
    }
}

impl fmt::Display for AlertKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that names no kind of alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no kind of alert has this name")]
pub struct ParseAlertKindError;

impl FromStr for AlertKind {
    type Err = ParseAlertKindError;

    fn from_str(word: &str) -> Result<Self, ParseAlertKindError> {
        let found = Self::ALL.into_iter().find(|kind| kind.as_str() == word);
        found.ok_or(ParseAlertKindError)
    }
}

/// What belongs into the same messages: the same kind at the same place of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AlertGroup {
    /// The namespace, short.
    pub namespace_id: i32,
    /// What happened.
    pub kind: AlertKind,
    /// The flow; empty if there is none.
    pub flow: String,
    /// The connection that the step uses; empty if there is none.
    pub connection: String,
    /// The step; empty if there is none.
    pub step: String,
}

impl AlertGroup {
    /// The key of the message for the period that begins at this instant: the same on every attempt,
    /// whichever server makes it.
    #[must_use]
    pub fn message_key(&self, period_start: Timestamp) -> EffectId {
        let start = period_start.as_microsecond().to_be_bytes();
        let parts: [&[u8]; 6] = [
            &self.namespace_id.to_be_bytes(),
            self.kind.as_str().as_bytes(),
            self.flow.as_bytes(),
            self.connection.as_bytes(),
            self.step.as_bytes(),
            &start,
        ];
        EffectId::from_uuid(Uuid::from_bytes(digest("semel.alert.1", &parts)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(flow: &str, step: &str) -> AlertGroup {
        AlertGroup {
            namespace_id: 1,
            kind: AlertKind::Doubt,
            flow: flow.to_owned(),
            connection: String::new(),
            step: step.to_owned(),
        }
    }

    #[test]
    fn a_message_has_one_key_per_group_and_period() {
        let (first, later) = (Timestamp::UNIX_EPOCH, Timestamp::MAX);

        let key = group("orders", "charge").message_key(first);

        assert_eq!(key, group("orders", "charge").message_key(first));
        assert_ne!(key, group("orders", "charge").message_key(later));
        assert_ne!(key, group("orderscharge", "").message_key(first));
    }

    #[test]
    fn every_kind_is_read_from_its_own_word() {
        for kind in AlertKind::ALL {
            assert_eq!(kind.as_str().parse(), Ok(kind));
        }
        assert_eq!("doubts".parse::<AlertKind>(), Err(ParseAlertKindError));
    }
}
