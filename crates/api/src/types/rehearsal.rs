//! Rehearsals of flows.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// Asks for a rehearsal of a flow's text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AskRehearsal {
    /// The flow's text, YAML.
    pub source: String,
    /// What the author calls the file, for the commands that the report prints.
    pub file: String,
    /// Only this example.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
    /// Only this fault, or this class of faults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// What the order of the cases is made from.
    #[serde(default)]
    pub seed: u64,
}

/// A rehearsal, and how far it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Rehearsal {
    /// The rehearsal.
    pub id: String,
    /// The flow.
    pub flow: String,
    /// The digest of what is rehearsed: that of the release.
    pub digest: String,
    /// `queued`, `running`, `passed`, `violated` or `stopped`.
    pub state: String,
    /// How many cases were begun.
    pub done: i32,
    /// How many there are; 0 where that is not known yet.
    pub total: i32,
    /// Every case, and what it showed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Value>,
    /// Why there is no report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Whether every example and every fault is played: only then it proves a release.
    #[serde(default)]
    pub whole: bool,
    /// When it was asked for.
    pub asked_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

impl Rehearsal {
    /// Whether it has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.state != "queued" && self.state != "running"
    }
}

/// Which rehearsals of a flow to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RehearsalFilter {
    /// Only those of this release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<i32>,
}
