//! `ssh` steps, checked.

use semel_model::Span;
use semel_model::request::{Detach, SshRequest};
use serde::Serialize;

use super::TextMap;
use crate::expr::{EvalError, Scope};
use crate::template::TextTemplate;

/// One command on another machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SshStep {
    /// The connection.
    pub connection: String,
    /// The program and its arguments.
    pub command: Vec<TextTemplate>,
    /// What it reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<TextTemplate>,
    /// Variables that it sees.
    pub env: TextMap<TextTemplate>,
    /// Whether a marker on the other machine tells what became of it.
    pub marker: bool,
    /// The address that it calls when it ends, where it goes on by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback: Option<TextTemplate>,
    /// How long it may take.
    pub timeout: Span,
}

impl SshStep {
    /// The command with every hole worked out.
    ///
    /// # Errors
    ///
    /// Where a hole cannot be worked out.
    pub fn render(&self, scope: &Scope<'_>) -> Result<SshRequest, EvalError> {
        let command = self.command.iter().map(|part| part.render(scope));
        let env = self.env.iter();
        let env = env.map(|(name, value)| Ok((name.clone(), value.render(scope)?)));
        let text =
            |text: &Option<TextTemplate>| text.as_ref().map(|it| it.render(scope)).transpose();
        let callback = text(&self.callback)?;
        Ok(SshRequest {
            connection: self.connection.clone(),
            command: command.collect::<Result<_, _>>()?,
            stdin: text(&self.stdin)?,
            env: env.collect::<Result<_, EvalError>>()?,
            marker: self.marker,
            detach: callback.map(|callback| Detach { callback }),
            timeout: self.timeout,
        })
    }
}
