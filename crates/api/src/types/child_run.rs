//! Child runs: items of lists, and branches.

use std::fmt;

use semel_model::RunId;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::run_status::RunStatus;
use crate::schema;

/// The state of a child run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChildRunState {
    /// Not begun.
    Pending,
    /// Begun and not ended; it may be stopped until an operator acts.
    Open,
    /// Ended, with a result.
    Succeeded,
    /// Ended, with a fault.
    Failed,
    /// Ended before its time.
    Cancelled,
}

impl ChildRunState {
    /// Every state.
    pub const ALL: [Self; 5] = [
        Self::Pending,
        Self::Open,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The state's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Open => "open",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for ChildRunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for ChildRunState {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|state| state.as_str() == text);
        named.ok_or_else(|| "one of: pending, open, succeeded, failed, cancelled".to_owned())
    }
}

/// An item or a branch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChildRun {
    /// The step that it belongs to.
    pub step: String,
    /// Its place in the list, from 0.
    pub index: i32,
    /// What tells it from others.
    pub key: String,
    /// The run that does its steps.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// Its state.
    pub state: ChildRunState,
    /// The state of that run, once it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_state: Option<RunStatus>,
    /// Its result. Left out where the run is archived: the item itself has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// What was wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Value>,
}

/// The progress of a step's child runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChildRunProgress {
    /// The step.
    pub step: String,
    /// All of them.
    pub count: i64,
    /// Not begun.
    pub pending: i64,
    /// Begun and not ended; it may be stopped until an operator acts.
    pub open: i64,
    /// Ended, with a result.
    pub succeeded: i64,
    /// Ended, with a fault.
    pub failed: i64,
    /// Ended before their time.
    pub cancelled: i64,
}

/// Which child runs to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChildRunFilter {
    /// Only of this step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Only those in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ChildRunState>,
    /// The most child runs of one page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u16>,
    /// Where the page before ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}
