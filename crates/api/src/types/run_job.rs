//! Cancelling and resuming many runs.

use jiff::Timestamp;
use semel_model::{FlowName, RunId, RunJobId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::run_status::RunStatus;
use crate::schema;

/// What is done to many runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunJobVerb {
    /// They are cancelled.
    Cancel,
    /// They are resumed.
    Resume,
}

/// Asks which runs would be cancelled or resumed or, with a digest, has that carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AskRunJob {
    /// What is done to them.
    pub verb: RunJobVerb,
    /// Their flow.
    #[schema(value_type = schema::FlowName)]
    pub flow: FlowName,
    /// Their state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<RunStatus>,
    /// Accepted at this time or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Timestamp>,
    /// Accepted before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Timestamp>,
    /// The digest of the plan that is carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Why, for the audit log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The runs that would be cancelled or resumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunJobPlan {
    /// What would be done to them.
    pub verb: RunJobVerb,
    /// Their flow.
    #[schema(value_type = schema::FlowName)]
    pub flow: FlowName,
    /// How many there are.
    pub count: usize,
    /// How many there are in each state.
    pub states: Vec<RunJobStateCount>,
    /// Some of them.
    #[schema(value_type = Vec<schema::RunId>)]
    pub runs: Vec<RunId>,
    /// The digest of what would be done to which runs.
    pub digest: String,
}

/// How many runs of a plan are in a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunJobStateCount {
    /// The state.
    pub state: String,
    /// How many.
    pub count: usize,
}

/// A set of runs that are cancelled or resumed together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunJob {
    /// The job.
    #[schema(value_type = schema::RunJobId)]
    pub job: RunJobId,
    /// What is done to its runs.
    pub verb: String,
    /// Their flow.
    pub flow: String,
    /// `running`; `done` once every run has an outcome; `stopped` where an operator or Semel stopped it.
    pub state: String,
    /// The digest of its plan.
    pub digest: String,
    /// Who made it.
    pub by: String,
    /// Why; empty without the right `payload`.
    pub reason: String,
    /// When.
    pub created_at: Timestamp,
    /// How many runs it has.
    pub count: i64,
    /// For how many of them it was carried out.
    pub done: i64,
    /// For how many of them it is not.
    pub refused: i64,
    /// Why Semel stopped it, where no operator did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_because: Option<String>,
    /// Some of those, with why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<RefusedRun>,
}

/// Stops a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StopRunJob {
    /// Why, for the audit record.
    pub reason: String,
}

/// A run of a job that was not cancelled or resumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefusedRun {
    /// The run.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// Why, as a stable word.
    pub code: String,
    /// Why, in words.
    pub note: String,
}

/// Which jobs to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunJobFilter {
    /// The most jobs of one page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u16>,
    /// Where the page before ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}
