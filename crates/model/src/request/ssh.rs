//! What an `ssh` step sends.

use serde::{Deserialize, Serialize};

use super::{ExternalKind, RequestSummary};
use crate::span::Span;

/// One command on another machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SshRequest {
    /// The connection.
    pub connection: String,
    /// The program and its arguments; each is quoted.
    pub command: Vec<String>,
    /// What it reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Variables that it sees.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<(String, String)>,
    /// Whether a marker on the other machine tells what became of it.
    #[serde(default)]
    pub marker: bool,
    /// Whether it goes on by itself once it was started, and calls this address when it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detach: Option<Detach>,
    /// How long it may take.
    pub timeout: Span,
}

/// A command that goes on by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detach {
    /// The address that it calls when it ends.
    pub callback: String,
}

impl ExternalKind for SshRequest {
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
            what: self.command.join(" "),
            body: self.stdin.clone(),
        }
    }
}
