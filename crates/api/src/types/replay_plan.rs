//! Replays of many runs.

use jiff::Timestamp;
use semel_model::{FlowName, ReplayPlanId, RunId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::run_status::RunStatus;
use crate::schema;

/// Freezes which runs are replayed together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanReplay {
    /// The flow.
    #[schema(value_type = schema::FlowName)]
    pub flow: FlowName,
    /// The state of the runs; `failed`, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<RunStatus>,
    /// Accepted at this time or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Accepted before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Failed with this code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The most runs that are replayed in a second, from 1 to 100; 10, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second: Option<i32>,
    /// Why, for the audit log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A set of runs that are replayed together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReplayPlan {
    /// The plan.
    #[schema(value_type = schema::ReplayPlanId)]
    pub plan: ReplayPlanId,
    /// The flow of its runs.
    pub flow: String,
    /// The number of the release that they are replayed on.
    pub release: i32,
    /// `previewing`, `planned`, `running`, `paused`, `stopped` or `done`.
    pub state: String,
    /// The most runs that are replayed in a second.
    pub per_second: i32,
    /// Who made it.
    pub actor: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// How many runs it has.
    pub runs: i64,
    /// How many of them can be replayed and were not.
    pub previewed: i64,
    /// How many of them were replayed.
    pub replayed: i64,
    /// How many of them are not replayed.
    pub refused: i64,
    /// Why Semel stopped it, where no operator did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_because: Option<String>,
    /// Its runs by what their previews show, on a single plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub summaries: Vec<PlanSummary>,
}

/// Runs of a plan with the same preview.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanSummary {
    /// What the preview shows, in short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Why they are refused, where they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// How many.
    pub runs: i64,
}

/// A run of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlannedRun {
    /// The run.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// `frozen`, `previewed`, `replayed` or `refused`.
    pub state: String,
    /// What its preview shows, in short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The run that replays it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::RunId>)]
    pub next: Option<RunId>,
    /// Why it is refused, as a stable word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Why it is refused, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Which runs of a plan to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PlannedRunFilter {
    /// Only those in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The most runs of one page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u16>,
    /// Where the page before ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Applies, pauses or stops a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangePlan {
    /// Why, for the audit log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The most runs that are replayed in a second, where that changes; only to apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second: Option<i32>,
}

/// Which plans to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayPlanFilter {
    /// The most plans of one page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u16>,
    /// Where the page before ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}
