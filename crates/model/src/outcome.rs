//! Outcomes: the world answers *done*, *failed* or *in doubt*, and nothing else.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::resource::Resource;
use crate::span::Span;

/// What one attempt came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It happened, and the destination said so.
    Done(Receipt),
    /// It is known not to have happened.
    Failed(Fault),
    /// Bytes may have left and no final answer came back: nobody can say.
    InDoubt(Doubt),
}

/// What the destination answered to an effect that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Receipt {
    /// The answer as expressions see it: for HTTP `{status, headers, json, text}`.
    pub response: Value,
    /// The HTTP status, where there is one.
    pub status: Option<u16>,
    /// What was too large for the journal and is kept by reference.
    pub kept: Vec<Resource>,
}

impl Receipt {
    /// An answer of which nothing had to be kept apart.
    pub fn new(response: Value, status: Option<u16>) -> Self {
        Self {
            response,
            status,
            kept: Vec::new(),
        }
    }
}

/// Why something is known not to have happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// A stable word for the kind of failure, e.g. `refused` or `http-404`.
    pub code: String,
    /// What happened, for people.
    pub message: String,
    /// Whether trying again may help.
    pub retryable: bool,
    /// How long the destination asked us to stay away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Span>,
}

/// Why nobody can say whether something happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    /// A stable word for the kind of doubt, e.g. `no-answer` or `http-503`.
    pub code: String,
    /// What was seen, for people.
    pub message: String,
    /// How long the destination asked us to stay away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Span>,
}

impl Fault {
    /// A failure that trying again will not mend.
    pub fn permanent(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            retryable: false,
            retry_after: None,
        }
    }

    /// A failure that may pass.
    pub fn passing(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            retryable: true,
            retry_after: None,
        }
    }
}

impl Fault {
    /// Whether the destination's own limits held it back: nothing was tried, and no attempt is used
    /// up.
    #[must_use]
    pub fn is_held_back(&self) -> bool {
        matches!(
            self.code.as_str(),
            "destination-busy" | "destination-paused"
        )
    }

    /// Whether it is what the destination answered, and not something that was found out before
    /// anything was sent.
    #[must_use]
    pub fn is_answer(&self) -> bool {
        self.code.starts_with("http-")
            || self.code.starts_with("sql-")
            || self.code == "rows-unexpected"
            || (self.code.starts_with("task-") && self.code != "task-timed-out")
    }
}

impl Doubt {
    /// A doubt of this kind.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            retry_after: None,
        }
    }
}
