//! What real traffic says about a flow's keys.

use semel_model::{FlowName, RunId, Span};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// A flow's recorded deliveries, by key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct KeyAudit {
    /// The flow.
    #[schema(value_type = schema::FlowName)]
    pub flow: FlowName,
    /// Recorded deliveries, first ones and repeats.
    pub deliveries: i64,
    /// Different keys.
    pub keys: i64,
    /// How long after the first delivery a repeat is still a redelivery.
    #[schema(value_type = schema::Span)]
    pub window: Span,
    /// One key, different payloads.
    pub differing: Differing,
    /// One payload, different keys.
    pub shared: SharedPayloads,
    /// Keys that came again after the window.
    pub late: LateKeys,
}

/// One key, different payloads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Differing {
    /// Payloads that differ from the first of their key.
    pub payloads: i64,
    /// Deliveries that brought them.
    pub deliveries: i64,
    /// In which fields, most frequent first.
    pub fields: Vec<DifferingField>,
}

/// A field in which payloads of one key differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DifferingField {
    /// Its path; a list's elements are `[]`.
    pub path: String,
    /// In how many deliveries.
    pub deliveries: i64,
    /// A key that shows it.
    pub example: String,
}

/// One payload, different keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SharedPayloads {
    /// How many payloads.
    pub payloads: i64,
    /// How many runs they made.
    pub runs: i64,
    /// The ones with the most keys.
    pub examples: Vec<SharedPayload>,
}

/// A payload that came under several keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SharedPayload {
    /// Under how many.
    pub keys: i64,
    /// Some of them.
    pub examples: Vec<String>,
}

/// Keys that came again after the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LateKeys {
    /// How many.
    pub count: i64,
    /// The latest.
    pub examples: Vec<LateKey>,
}

/// A key that came again late.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LateKey {
    /// The key.
    pub key: String,
    /// The run that answered.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// How often it came again.
    pub count: i64,
    /// How long after the first the last one came.
    #[schema(value_type = schema::Span)]
    pub after: Span,
}
