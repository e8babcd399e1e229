//! What a `notify` step sends.

use serde::{Deserialize, Serialize};

use super::{ExternalKind, RequestSummary};
use crate::span::Span;

/// One message to people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The connection.
    pub connection: String,
    /// Whom it goes to.
    pub to: Vec<String>,
    /// The subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The message.
    pub text: String,
    /// The message as HTML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    /// How long it may take.
    pub timeout: Span,
}

impl ExternalKind for Message {
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
        let subject = self.subject.as_deref().unwrap_or_default();
        RequestSummary {
            what: format!("to {}: {subject}", self.to.join(", ")),
            body: Some(self.text.clone()),
        }
    }
}
