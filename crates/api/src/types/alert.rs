//! Alerts: where they go, their groups, and the outcome of their messages.

use jiff::Timestamp;
use semel_model::{AlertKind, EffectId, RunId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// The alerts of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Alerts {
    /// Where they go; absent if that is not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setting: Option<AlertSetting>,
    /// What happened, those in which something happened last first.
    pub groups: Vec<AlertGroup>,
}

/// Where alerts go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlertSetting {
    /// The connection; absent if messages are only printed to the server's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
    /// Whom messages go to there.
    pub to: Vec<String>,
    /// Whether the connection exists.
    pub connection_exists: bool,
    /// When it was set.
    pub set_at: Timestamp,
    /// Who set it.
    pub set_by: String,
}

/// Sets where alerts go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetAlerts {
    /// A connection of kind smtp, slack or webhook.
    pub connection: String,
    /// Addresses of a mail, or one channel of a chat; may be empty for a webhook.
    #[serde(default)]
    pub to: Vec<String>,
}

/// It was set where alerts go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlertsSet {
    /// The connection.
    pub connection: String,
    /// Whom messages go to there.
    pub to: Vec<String>,
}

/// Alerts were unset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlertsUnset {
    /// Whether alerts are set now.
    pub set: bool,
}

/// What happened at one place, and its messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlertGroup {
    /// What happened.
    #[schema(value_type = schema::AlertKind)]
    pub kind: AlertKind,
    /// The flow; empty if there is none.
    pub flow: String,
    /// The step; empty if there is none.
    pub step: String,
    /// The connection that the step uses; empty if there is none.
    pub connection: String,
    /// How often it happened.
    pub total: i64,
    /// How often it happened since the last message that was delivered or is on its way.
    pub waiting: i64,
    /// When the first of those happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_since: Option<Timestamp>,
    /// When the next message leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Timestamp>,
    /// A run that it happened to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::RunId>)]
    pub example: Option<RunId>,
    /// How many of the latest messages in a row were not delivered.
    pub failures: i32,
    /// When it happened last.
    pub last_at: Timestamp,
    /// The latest message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<AlertMessage>,
}

/// A message about a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlertMessage {
    /// The key that it carries on every attempt.
    #[schema(value_type = schema::EffectId)]
    pub key: EffectId,
    /// How often it happened, as the message says.
    pub count: i64,
    /// Its state: `due`, `sending`, `done`, `failed` or `in_doubt`.
    pub state: String,
    /// What was seen, if it was not delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// When it was written, before it was sent.
    pub intended_at: Timestamp,
    /// When its outcome was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<Timestamp>,
}

/// The outcome of a test message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TestedAlerts {
    /// `done`, `failed` or `in_doubt`.
    pub outcome: String,
    /// What was seen, if it was not delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}
