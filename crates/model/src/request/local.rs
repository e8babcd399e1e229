//! What a step changes in Semel's own tables.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{RequestSummary, json_text};
use crate::json::estimated_json_bytes;
use crate::kv::Operation;
use crate::name::FlowName;
use crate::span::Span;

/// A change of Semel's own tables. The engine makes it; no executor is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LocalChange {
    /// One operation on the namespace's own key-value table.
    Kv(Operation),
    /// A value that is kept by reference.
    Persist(PersistRequest),
    /// An event for other flows.
    Emit(Emission),
    /// A run of another flow.
    Start(RunStart),
}

impl LocalChange {
    /// The kind of step that makes it.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Kv(_) => "kv",
            Self::Persist(_) => "persist",
            Self::Emit(_) => "emit",
            Self::Start(_) => "call",
        }
    }

    pub(super) fn summary(&self) -> RequestSummary {
        let (what, body) = match self {
            Self::Kv(operation) => (operation.entry.clone(), json_text(operation)),
            Self::Persist(request) => (
                request.name.clone().unwrap_or_default(),
                json_text(&request.value),
            ),
            Self::Emit(emission) => (emission.event.clone(), json_text(&emission.data)),
            Self::Start(start) => (start.flow.to_string(), json_text(&start.input)),
        };
        let body = Some(body);
        RequestSummary { what, body }
    }
}

/// A value that is kept by reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PersistRequest {
    /// The value. A text is kept as it is, anything else as JSON.
    pub value: Value,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its media type.
    pub media_type: String,
    /// How long it is kept.
    pub keep: Span,
}

/// A run of another flow, under a key derived from the run that asks for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunStart {
    /// The flow.
    pub flow: FlowName,
    /// Its input.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// Whether the caller waits for its end.
    pub wait: bool,
}

/// An event for other flows and for subscribed webhooks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Emission {
    /// The event.
    pub event: String,
    /// What it carries.
    pub data: Value,
}

impl Emission {
    /// About how many bytes it takes where it is written.
    pub fn estimated_bytes(&self) -> usize {
        estimated_json_bytes(&self.data)
    }
}
