//! `notify` steps, checked.

use semel_model::Span;
use semel_model::request::Message;
use serde::Serialize;

use crate::expr::{EvalError, Scope};
use crate::template::TextTemplate;

/// How long sending a message may take.
const TIMEOUT: Span = Span::from_const_secs(60);

/// One message to people.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NotifyStep {
    /// The connection.
    pub connection: String,
    /// Whom it goes to.
    pub to: Vec<TextTemplate>,
    /// The subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<TextTemplate>,
    /// The message.
    pub text: TextTemplate,
    /// The message as HTML.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub html: Option<TextTemplate>,
}

impl NotifyStep {
    /// The message with every hole worked out.
    ///
    /// # Errors
    ///
    /// Where a hole cannot be worked out.
    pub fn render(&self, scope: &Scope<'_>) -> Result<Message, EvalError> {
        let text =
            |text: &Option<TextTemplate>| text.as_ref().map(|it| it.render(scope)).transpose();
        let to = self.to.iter().map(|to| to.render(scope));
        Ok(Message {
            connection: self.connection.clone(),
            to: to.collect::<Result<_, _>>()?,
            subject: text(&self.subject)?,
            text: self.text.render(scope)?,
            html: text(&self.html)?,
            timeout: TIMEOUT,
        })
    }
}
