//! What an `llm` step sends.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{ExternalKind, RequestSummary};
use crate::span::Span;

/// One question to a language model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LlmRequest {
    /// The connection.
    pub connection: String,
    /// The model; otherwise the connection's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What the model is told first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The question.
    pub prompt: String,
    /// JSON Schema of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// The longest answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Where the same question gets the same answer.
    pub cache: CacheScope,
    /// How long it may take.
    pub timeout: Span,
}

/// Where the same question gets the same answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheScope {
    /// Within one run.
    #[default]
    Run,
    /// In every run of the flow.
    Flow,
    /// Everywhere in the namespace.
    Namespace,
}

impl ExternalKind for LlmRequest {
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
            what: self.model.clone().unwrap_or_default(),
            body: Some(self.prompt.clone()),
        }
    }

    /// What the model read and wrote, and what that cost.
    fn usage(&self, response: &Value) -> Value {
        json!({
            "model": response["model"],
            "tokens": response["tokens"],
            "cost": response["cost"],
        })
    }
}
