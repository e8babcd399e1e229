//! Tasks: work that outside programs claim from a queue.

use jiff::Timestamp;
use semel_model::task::TaskState;
use semel_model::{EffectId, RunId, Span};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::schema;

/// Asks for work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimTasks {
    /// The queue.
    pub queue: String,
    /// How many at the most; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u16>,
    /// How long to wait for work where there is none, up to 20 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Span>)]
    pub wait: Option<Span>,
    /// What the worker calls itself, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// How long the worker may be silent; as the step says by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Span>)]
    pub lease: Option<Span>,
}

/// What there was to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClaimedTasks {
    /// The tasks; none where none came in time.
    pub tasks: Vec<ClaimedTask>,
}

/// A task that a worker holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClaimedTask {
    /// The task.
    #[schema(value_type = schema::EffectId)]
    pub task: EffectId,
    /// The effect's key, the same on every attempt: to pass on to a destination that honours keys.
    #[schema(value_type = schema::EffectId)]
    pub key: EffectId,
    /// Its run.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// The step's path.
    pub step: String,
    /// The queue.
    pub queue: String,
    /// The number of the attempt, from 1.
    pub attempt: i32,
    /// What every heartbeat and answer has to carry.
    pub token: i64,
    /// How long the worker may be silent.
    #[schema(value_type = schema::Span)]
    pub lease: Span,
    /// When it counts as lost.
    pub lease_until: Timestamp,
    /// When the task times out as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// What there is to do.
    pub input: Value,
}

/// Renews the worker's lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewTask {
    /// The token of the claim.
    pub token: i64,
    /// How long the worker may be silent; as the step says by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Span>)]
    pub lease: Option<Span>,
}

/// The worker may continue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RenewedTask {
    /// The task.
    #[schema(value_type = schema::EffectId)]
    pub task: EffectId,
    /// When the worker counts as lost.
    pub lease_until: Timestamp,
    /// Whether the run is to be cancelled: the worker may stop and say that the task failed.
    pub cancel: bool,
}

/// It is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CompleteTask {
    /// The token of the claim.
    pub token: i64,
    /// What the flow reads as the step's result.
    #[serde(default)]
    pub result: Value,
}

/// It did not happen, or the worker cannot say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FailTask {
    /// The token of the claim.
    pub token: i64,
    /// A stable word for the kind of failure; `failed` by default. With `in_doubt`,
    /// `answer-refused` says that the work is done and its result cannot be sent: an operator
    /// settles it, and no worker does it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What happened, for people.
    #[serde(default)]
    pub message: String,
    /// Whether another attempt may help.
    #[serde(default)]
    pub retryable: bool,
    /// How long to wait before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Span>)]
    pub retry_after: Option<Span>,
    /// Whether it may have happened: the step's guard then settles it.
    #[serde(default)]
    pub in_doubt: bool,
}

/// An answer is recorded, now or before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AnsweredTask {
    /// The task.
    #[schema(value_type = schema::EffectId)]
    pub task: EffectId,
    /// The run that continues.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// Always true.
    pub accepted: bool,
}

/// A task as people see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Task {
    /// The task, which is the effect.
    #[schema(value_type = schema::EffectId)]
    pub task: EffectId,
    /// Its run.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// The queue.
    pub queue: String,
    /// The step's path.
    pub step: String,
    /// Its state.
    #[schema(value_type = schema::TaskState)]
    pub state: TaskState,
    /// The number of the latest attempt.
    pub attempt: i32,
    /// What the latest worker calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// When the latest attempt was opened.
    pub opened_at: Timestamp,
    /// When the worker that holds it counts as lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<Timestamp>,
    /// When it times out as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// When the latest attempt ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// What there is to do.
    pub input: Value,
    /// What the worker answered: `{result}`, `{fault}` or `{doubt}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
}

/// Which tasks to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskFilter {
    /// Only of this queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Only of this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::RunId>)]
    pub run: Option<RunId>,
    /// Only in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::TaskState>)]
    pub state: Option<TaskState>,
    /// Ended ones too.
    #[serde(default)]
    pub all: bool,
    /// The most tasks of one page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u16>,
    /// Where the page before ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}
