//! Replays: the preview, and what carries it out.

use semel_model::RunId;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::schema;

pub use semel_model::replay::{
    ChangedField, Forecast, ReplayObstacle, ReplayPreview, StepForecast,
};

/// Asks what a replay of a run would do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PreviewReplay {
    /// The number of the release that the next run is on; the live one, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<i32>,
    /// The step from which on reads and functions are made again; the first that is not done, when
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The input of the next run, which must have the same key; that of the last run, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// The steps that are skipped although their requests differ now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accept_changed: Vec<String>,
}

/// Replays a run as its preview showed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// The digest of the preview.
    pub digest: String,
    /// As in the preview.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<i32>,
    /// As in the preview.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// As in the preview.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// As in the preview.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accept_changed: Vec<String>,
    /// Why, for the audit log; required with another input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A run was replayed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Replayed {
    /// The next run of its key.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// The run that was replayed.
    #[schema(value_type = schema::RunId)]
    pub last: RunId,
}
