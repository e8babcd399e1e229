//! `llm` steps, checked.

use semel_model::Span;
use semel_model::request::{CacheScope, LlmRequest};
use serde::Serialize;
use serde_json::Value;

use crate::expr::{EvalError, Scope};
use crate::template::TextTemplate;

/// One question to a language model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LlmStep {
    /// The connection.
    pub connection: String,
    /// The model; otherwise the connection's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What the model is told first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<TextTemplate>,
    /// The question.
    pub prompt: TextTemplate,
    /// JSON Schema of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// The longest answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Where the same question gets the same answer.
    pub cache: CacheScope,
    /// How long it may take.
    pub timeout: Span,
}

impl LlmStep {
    /// The question with every hole worked out.
    ///
    /// # Errors
    ///
    /// Where a hole cannot be worked out.
    pub fn render(&self, scope: &Scope<'_>) -> Result<LlmRequest, EvalError> {
        let system = self.system.as_ref().map(|it| it.render(scope));
        Ok(LlmRequest {
            connection: self.connection.clone(),
            model: self.model.clone(),
            system: system.transpose()?,
            prompt: self.prompt.render(scope)?,
            schema: self.schema.clone(),
            max_tokens: self.max_tokens,
            cache: self.cache,
            timeout: self.timeout,
        })
    }
}
