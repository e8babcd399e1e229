//! Waits: durable pauses that a callback can end.

use jiff::Timestamp;
use semel_model::{RunId, WaitId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::schema;

/// A pause of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Wait {
    /// The wait.
    #[serde(rename = "wait")]
    #[schema(value_type = schema::WaitId)]
    pub id: WaitId,
    /// Its run.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// The step's path; absent while only its callback has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Its state: `open`, `answered`, `elapsed` or `cancelled`.
    pub state: String,
    /// When the run came to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened_at: Option<Timestamp>,
    /// When it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// What the callback brought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
}

/// Completes a wait in place of its callback.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CompleteWait {
    /// What the flow reads as the wait's result.
    #[serde(default)]
    pub payload: Value,
}

/// A callback was accepted, now or before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Called {
    /// The run that waited.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// The wait.
    #[schema(value_type = schema::WaitId)]
    pub wait: WaitId,
    /// Always true.
    pub accepted: bool,
}

/// Which waits to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitFilter {
    /// Only those of this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::RunId>)]
    pub run: Option<RunId>,
    /// Ended ones too.
    #[serde(default)]
    pub all: bool,
    /// The most of one page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u16>,
    /// Where the page before ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}
