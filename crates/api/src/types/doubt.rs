//! Lists of doubts, and doubts of one step that are settled together.

use semel_model::{EffectId, FlowName, RunId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::effect::Verdict;
use crate::schema;

/// Which doubts to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DoubtFilter {
    /// The most doubts of one page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u16>,
    /// Where the page before ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Only those that are put off until later, or only the others; all where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snoozed: Option<bool>,
}

/// Says the same of every doubt of one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SettleGroup {
    /// The flow.
    #[schema(value_type = schema::FlowName)]
    pub flow: FlowName,
    /// The step.
    pub step: String,
    /// Only where the step goes over this connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
    /// Only where the last attempt saw exactly this: the effect's `note`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<String>,
    /// What happened to them.
    pub verdict: Verdict,
    /// Why, for the audit log.
    pub reason: String,
    /// The digest of the preview; only to settle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// The doubts of one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GroupedDoubts {
    /// What they are settled by: it holds while they are these and the verdict is this one.
    pub digest: String,
    /// What is said of them.
    pub verdict: Verdict,
    /// The oldest first.
    pub doubts: Vec<GroupedDoubt>,
    /// How many are settled now.
    pub settled: usize,
    /// Whether there are more, for a further command.
    #[serde(default)]
    pub more: bool,
}

/// One doubt of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GroupedDoubt {
    /// The effect.
    #[schema(value_type = schema::EffectId)]
    pub effect: EffectId,
    /// Its run.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// The attempt in doubt.
    pub attempt: i32,
    /// Why it cannot be settled like this, or was not, as a stable word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The same, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}
