//! Held deliveries, what operators decide about them, and deliveries that were refused.

use jiff::Timestamp;
use semel_model::{DuplicateId, RunId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// Gives a held delivery a run of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AcceptAsNew {
    /// The key of that run.
    pub key: String,
    /// Why, for the audit log.
    pub reason: String,
}

/// Accepts a held delivery as a repeat, or dismisses it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HeldReason {
    /// Why, for the audit log.
    pub reason: String,
}

/// A held delivery was decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DecidedHeld {
    /// The delivery.
    #[schema(value_type = schema::DuplicateId)]
    pub duplicate: DuplicateId,
    /// `new_key`, `repeat` or `dismissed`.
    pub decision: String,
    /// The run that it has now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::RunId>)]
    pub run: Option<RunId>,
}

/// What an operator decided about a held delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeldDecision {
    /// `new_key`, `repeat` or `dismissed`.
    pub decision: String,
    /// The key that the operator chose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub by: String,
    /// The run that the delivery has now; absent while a run of its own is not made yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::RunId>)]
    pub run: Option<RunId>,
}

/// Which refused deliveries to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RefusedFilter {
    /// Only those of this flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    /// Only those with this error code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Only those of this time or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Only those before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The most of one page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u16>,
    /// Where the page before ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A delivery that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefusedDelivery {
    /// The flow.
    pub flow: String,
    /// When.
    pub at: Timestamp,
    /// The error code of the response.
    pub code: String,
    /// What was wrong. It may quote what was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
