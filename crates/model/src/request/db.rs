//! What a `db` step sends.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ExternalKind, RequestSummary, json_text};
use crate::span::Span;

/// One SQL statement with its values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DbRequest {
    /// The connection.
    pub connection: String,
    /// The statement: a constant of the flow.
    pub statement: String,
    /// What `$1`, `$2`, … stand for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Value>,
    /// How many rows a change must meet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// How long it may take.
    pub timeout: Span,
}

impl ExternalKind for DbRequest {
    fn connection(&self) -> Option<&str> {
        Some(&self.connection)
    }

    fn address(&self) -> Option<&str> {
        None
    }

    fn timeout(&self) -> Span {
        self.timeout
    }

    fn summary(&self) -> RequestSummary {
        RequestSummary {
            what: self.statement.clone(),
            body: Some(json_text(&self.values)),
        }
    }
}
