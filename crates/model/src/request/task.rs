//! What a `task` step hands to a worker.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{RequestSummary, json_text};
use crate::span::Span;

/// Work for a program outside, rendered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskRequest {
    /// The queue that workers take it from.
    pub queue: String,
    /// What the worker gets.
    pub input: Value,
    /// How long a worker may be silent.
    pub lease: Span,
    /// When its time is over in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl TaskRequest {
    pub(super) fn summary(&self) -> RequestSummary {
        RequestSummary {
            what: self.queue.clone(),
            body: Some(json_text(&self.input)),
        }
    }
}
