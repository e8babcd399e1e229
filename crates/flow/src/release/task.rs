//! `task` steps, checked: what a program outside is asked to do.

use semel_model::Span;
use semel_model::request::TaskRequest;
use serde::Serialize;

use crate::expr::{EvalError, Scope};
use crate::template::Template;

/// Work for a program outside.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskStep {
    /// The queue that workers take it from.
    pub queue: String,
    /// What the worker gets; null where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Template>,
    /// How long a worker may be silent.
    pub lease: Span,
    /// How long it may take in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<Span>,
}

impl TaskStep {
    /// The task with every hole worked out. When its time is over, whoever opens it says.
    ///
    /// # Errors
    ///
    /// Where a hole cannot be worked out.
    pub fn render(&self, scope: &Scope<'_>) -> Result<TaskRequest, EvalError> {
        let input = self.input.as_ref().map(|it| it.render(scope));
        Ok(TaskRequest {
            queue: self.queue.clone(),
            input: input.transpose()?.unwrap_or_default(),
            lease: self.lease,
            until: None,
        })
    }
}
