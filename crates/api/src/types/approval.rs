//! Approvals: what people are asked to decide, and what they decided.

use jiff::Timestamp;
use semel_model::approval::{ApprovalDecision, ApprovalState, Digest};
use semel_model::{RunId, WaitId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::schema;

/// A question to people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Approval {
    /// The approval.
    #[schema(value_type = schema::WaitId)]
    pub approval: WaitId,
    /// Its run.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// The flow.
    pub flow: String,
    /// The key of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The step's path.
    pub step: String,
    /// Its state.
    #[schema(value_type = schema::ApprovalState)]
    pub state: ApprovalState,
    /// Who may decide: people or groups.
    pub from: Vec<String>,
    /// Who else may, once half of the time is over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub escalate: Vec<String>,
    /// When that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalate_at: Option<Timestamp>,
    /// What is decided about, as it was when people were asked.
    pub shown: Value,
    /// Its digest, which a decision has to name; absent where the caller may not see what is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Digest>)]
    pub digest: Option<Digest>,
    /// Whether the link alone is not enough.
    pub login: bool,
    /// Who may not decide, because they started the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_by: Option<String>,
    /// When people were asked.
    pub opened_at: Timestamp,
    /// When it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// What was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::ApprovalDecision>)]
    pub decision: Option<ApprovalDecision>,
}

/// Says yes or no to what was shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Decide {
    /// Yes or no.
    pub approved: bool,
    /// The digest of what was shown.
    #[schema(value_type = schema::Digest)]
    pub digest: Digest,
    /// A comment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Who decides; needed with a link, and kept as claimed. With a token, the token says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A decision stands, made now or before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DecidedApproval {
    /// The approval.
    #[schema(value_type = schema::WaitId)]
    pub approval: WaitId,
    /// The run that continues.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// The decision.
    #[schema(value_type = schema::ApprovalDecision)]
    pub decision: ApprovalDecision,
}

/// Which approvals to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalFilter {
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
