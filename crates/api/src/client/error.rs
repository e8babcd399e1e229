//! Why a request failed.

use reqwest::StatusCode;

use crate::code::Code;
use crate::types::Problem;

/// Why a request failed, as far as the client can tell.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server says why not, and what to do.
    #[error("{}", .0.detail)]
    Problem(Box<Problem>),
    /// The address or the token cannot be used at all; nothing was sent.
    #[error("the server's address cannot be used: {0}")]
    Address(String),
    /// No answer: whether the server did what it was asked is not known. Repeat with the same key.
    #[error("cannot reach the server")]
    Unreachable(#[source] reqwest::Error),
    /// An answer that this client cannot read.
    #[error("the server answered {status} with something that is not of this API")]
    Malformed {
        /// The HTTP status.
        status: StatusCode,
        /// What was wrong, for people.
        detail: String,
    },
}

impl ClientError {
    /// The stable word for the kind of error.
    pub fn code(&self) -> &str {
        match self {
            Self::Problem(problem) => &problem.code,
            Self::Address(_) | Self::Unreachable(_) => Code::ServerUnreachable.as_str(),
            Self::Malformed { .. } => Code::AnswerMalformed.as_str(),
        }
    }

    /// What to do.
    pub fn hint(&self) -> &str {
        match self {
            Self::Problem(problem) => &problem.hint,
            Self::Address(_) | Self::Unreachable(_) => Code::ServerUnreachable.hint(),
            Self::Malformed { .. } => Code::AnswerMalformed.hint(),
        }
    }

    /// The HTTP status, where a server answered.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Problem(problem) => Some(problem.status),
            Self::Malformed { status, .. } => Some(status.as_u16()),
            Self::Address(_) | Self::Unreachable(_) => None,
        }
    }
}
