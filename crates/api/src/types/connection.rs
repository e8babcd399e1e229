//! Connections: destinations as their owners describe them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::pause::Pause;
use crate::schema;

/// A connection, as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Connection {
    /// What flows call it.
    pub name: String,
    /// What kind of destination it leads to, in one word.
    pub kind: String,
    /// Grows with every change.
    pub version: i64,
    /// What its owner says of it.
    #[schema(value_type = schema::ConnectionSetting)]
    pub connection: semel_model::Connection,
    /// Secrets that it names and that are not set: nothing is sent until they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Its pause, where it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was changed last.
    pub changed_at: Timestamp,
}

/// Stores a connection. The same again is no change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutConnection {
    /// What its owner says of it.
    #[schema(value_type = schema::ConnectionSetting)]
    pub connection: semel_model::Connection,
    /// Whether it replaces another connection of that name.
    #[serde(default)]
    pub replace: bool,
}

/// What putting a connection changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// There was none of that name.
    Created,
    /// It replaced another one.
    Replaced,
    /// The same one was there.
    Unchanged,
}

/// A connection was stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeptConnection {
    /// What flows call it.
    pub name: String,
    /// Its version.
    pub version: i64,
    /// What changed.
    pub change: Change,
    /// Secrets that it names and that are not set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Live releases that were proven, until this change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unproven: Vec<UnprovenFlow>,
}

/// A live release that is not proven any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnprovenFlow {
    /// The flow.
    pub flow: String,
    /// Its live release.
    pub release: i32,
}

/// A connection was removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeletedConnection {
    /// What flows called it.
    pub name: String,
}

/// The outcome of testing or preparing a destination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tried {
    /// The connection.
    pub name: String,
    /// Whether it went well.
    pub ok: bool,
    /// What was found, for people.
    pub found: String,
    /// The stable word for what went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}
