//! Approvals: a person says yes or no, to exactly what was shown.
//!
//! ```text
//!          ┌──▶ Decided      by a person, with a token or with the link
//! Open ────┼──▶ Elapsed      no decision came in time
//!          └──▶ Withdrawn    the run ended first
//! ```
//!
//! Exactly one of the ends is reached. What is decided about is pinned by its digest: a decision
//! names the digest of what its maker saw.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::span::Span;

/// The stored state of an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalState {
    /// No decision yet.
    Open,
    /// A person decided.
    Decided,
    /// No decision came in time.
    Elapsed,
    /// Its run ended first.
    Withdrawn,
}

impl ApprovalState {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Open, Self::Decided, Self::Elapsed, Self::Withdrawn];

    /// The state's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Decided => "decided",
            Self::Elapsed => "elapsed",
            Self::Withdrawn => "withdrawn",
        }
    }
}

impl fmt::Display for ApprovalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text names no state.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected open, decided, elapsed or withdrawn")]
pub struct ApprovalStateError;

impl FromStr for ApprovalState {
    type Err = ApprovalStateError;

    fn from_str(text: &str) -> Result<Self, ApprovalStateError> {
        Self::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or(ApprovalStateError)
    }
}

/// What holds where no decision came in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnTimeout {
    /// As if a person had rejected it.
    #[default]
    Reject,
    /// The run fails.
    Fail,
    /// The run continues without a decision.
    Continue,
}

/// What a rejection means for the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnReject {
    /// The run fails.
    #[default]
    Fail,
    /// The run continues, and later steps see that it was rejected.
    Continue,
}

impl OnReject {
    /// Whether it is the default.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::Fail
    }
}

/// What people are asked, fixed when they are asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// Who may decide: people or groups.
    pub from: Vec<String>,
    /// Who else may, once half of the time is over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub escalate: Vec<String>,
    /// When they may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalate_at: Option<Timestamp>,
    /// What is decided about.
    pub shown: Value,
    /// Its digest, which a decision has to name.
    pub digest: Digest,
    /// Whether the link alone is not enough.
    #[serde(default)]
    pub login: bool,
    /// Who may not decide, because they started the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_by: Option<String>,
    /// How often the people asked are reminded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remind: Option<Span>,
    /// When they are reminded first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remind_at: Option<Timestamp>,
    /// What holds where no decision came in time.
    #[serde(default)]
    pub on_timeout: OnTimeout,
    /// What a rejection means for the run.
    #[serde(default, skip_serializing_if = "OnReject::is_default")]
    pub on_reject: OnReject,
    /// How many times the run had asked the same before. A link and a decision are for one round.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub round: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(round: &u32) -> bool {
    *round == 0
}

/// What a person decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalDecision {
    /// Yes or no.
    pub approved: bool,
    /// Who decided: the name of a token; or, by link, the name that was claimed, which Semel does
    /// not verify.
    pub by: String,
    /// What they said about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// When.
    pub at: Timestamp,
}

/// What Semel sends to people besides the first request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "told", rename_all = "snake_case")]
pub enum ApprovalNotice {
    /// A reminder, because there is no decision yet.
    Reminded {
        /// How many times so far, this one included.
        number: u32,
        /// When the next reminder is due; none follows, when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next_at: Option<Timestamp>,
    },
    /// A request to others too, because half of the time is over.
    Escalated,
}

/// SHA-256 of the canonical form (RFC 8785) of what was shown, as 64 hex digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digest(String);

impl Digest {
    /// The digest of a value.
    #[must_use]
    pub fn of(shown: &Value) -> Self {
        let written = serde_json_canonicalizer::to_vec(shown);
        assert!(written.is_ok(), "a parsed JSON value has a canonical form");
        Self(hex::encode(Sha256::digest(written.unwrap_or_default())))
    }

    /// Takes the text of a digest as it came; one that is none equals no other.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        Self(text.trim().to_ascii_lowercase())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_digest_is_of_the_meaning_and_not_of_the_spelling() {
        let one: Value = serde_json::from_str(r#"{"b":1,"a":[1.0,"x"]}"#).unwrap();
        let other: Value = serde_json::from_str(r#"{ "a": [1, "x"], "b": 1 }"#).unwrap();

        assert_eq!(Digest::of(&one), Digest::of(&other));
        assert_ne!(
            Digest::of(&one),
            Digest::of(&json!({"a": [1, "x"], "b": 2}))
        );
    }

    #[test]
    fn a_digest_is_sha_256_over_rfc_8785() {
        // printf '{"a":1}' | sha256sum
        let known = "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862";

        assert_eq!(Digest::of(&json!({"a": 1})).as_str(), known);
        assert_eq!(Digest::from_text(&known.to_uppercase()).as_str(), known);
    }
}
