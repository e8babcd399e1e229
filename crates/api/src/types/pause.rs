//! Pauses of flows and connections.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A flow or a connection that is paused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Pause {
    /// `flow` or `connection`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The operator's reason.
    pub reason: String,
    /// Who paused it.
    pub by: String,
    /// Since when.
    pub since: Timestamp,
    /// How many runs sleep until it is resumed; absent where one run is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_runs: Option<i64>,
}

/// Pauses a flow or a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AskPause {
    /// Why, for the audit log and everyone who wonders why nothing moves.
    pub reason: String,
}

/// Resumes a flow or a connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AskResume {
    /// Why, for the audit log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How many of the runs that were held up continue in a second; all at once, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second: Option<f64>,
}

/// Something was paused or resumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PauseChange {
    /// `flow` or `connection`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Whether it is paused now.
    pub paused: bool,
    /// Whether it was not before.
    pub changed: bool,
}
