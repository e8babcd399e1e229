//! How an effect is made safe to repeat, as its author says.

use semel_model::connection::Connection;
use semel_model::{Guard, Span};
use serde::Serialize;

use crate::expr::Expr;
use crate::steps::{DbStep, HttpStep, ReleasedStep};

/// How long most destinations remember a key.
pub(crate) const KEY_WINDOW: Span = Span::from_const_secs(24 * 3_600);

/// How a step is made safe to repeat.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepGuard {
    /// No effect: it may be repeated at will.
    Read,
    /// Effect and marker commit together.
    Transaction,
    /// The destination honours our key.
    Key {
        /// For how long it remembers the key; otherwise as the connection says.
        window: Option<Span>,
    },
    /// Repeating is harmless by nature.
    Natural,
    /// A read shows whether it happened.
    Probe(Box<Probe>),
    /// A person settles a doubt.
    Review,
    /// Deliberately additive.
    Repeat {
        /// Why the author signed for repeats.
        because: String,
    },
    /// `key` where the connection honours keys when the intent is written, else `review`.
    Connection,
}

impl StepGuard {
    /// The guard's name in the ledger; nothing for a read, which has no entry there. What only the
    /// connection decides counts as `review`.
    #[must_use]
    pub const fn guard(&self) -> Option<Guard> {
        match self {
            Self::Read => None,
            Self::Transaction => Some(Guard::Transaction),
            Self::Key { .. } => Some(Guard::Key),
            Self::Natural => Some(Guard::Natural),
            Self::Probe(_) => Some(Guard::Probe),
            Self::Review | Self::Connection => Some(Guard::Review),
            Self::Repeat { .. } => Some(Guard::Repeat),
        }
    }

    /// The read that shows whether the effect happened, where there is one.
    #[must_use]
    pub fn probe(&self) -> Option<&Probe> {
        match self {
            Self::Probe(probe) => Some(probe),
            Self::Read
            | Self::Transaction
            | Self::Key { .. }
            | Self::Natural
            | Self::Review
            | Self::Repeat { .. }
            | Self::Connection => None,
        }
    }

    /// What the connection decides, where it decides anything.
    #[must_use]
    pub fn decided_by(&self, connection: Option<&Connection>) -> Option<Guard> {
        let honoured = connection.and_then(|connection| connection.idempotency_keys.window);
        match self {
            Self::Connection if honoured.is_some() => Some(Guard::Key),
            Self::Connection
            | Self::Read
            | Self::Transaction
            | Self::Key { .. }
            | Self::Natural
            | Self::Probe(_)
            | Self::Review
            | Self::Repeat { .. } => None,
        }
    }

    /// How long the destination remembers the key, by what the connection says now.
    #[must_use]
    pub fn window(&self, connection: Option<&Connection>) -> Option<Span> {
        let honoured = connection.and_then(|connection| connection.idempotency_keys.window);
        match self {
            Self::Key { window } => Some(window.or(honoured).unwrap_or(KEY_WINDOW)),
            Self::Connection => honoured,
            Self::Read
            | Self::Transaction
            | Self::Natural
            | Self::Probe(_)
            | Self::Review
            | Self::Repeat { .. } => None,
        }
    }
}

/// The read that shows whether an effect happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Probe {
    /// What is asked.
    #[serde(flatten)]
    pub ask: Ask,
    /// The step's result where it happened, over `probe`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Expr>,
    /// Whether it asks before the first attempt too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub before: bool,
    /// Quiet time before the first question.
    pub after: Span,
    /// Why nothing can land later than that, where the author says so: then *absent* is believed at
    /// the first question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

/// What a probe asks. Always a read.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// A `get` or a `head`.
    Http {
        /// The request.
        request: Box<HttpStep>,
        /// Whether it happened, over `probe`.
        found: Expr,
    },
    /// A `query`.
    Db {
        /// The statement.
        query: Box<DbStep>,
        /// Whether it happened, over `probe`.
        found: Expr,
    },
    /// The marker that the command itself left on the other machine.
    Marker,
}

impl Probe {
    /// The connection that it goes over, where it names one.
    #[must_use]
    pub fn connection(&self) -> Option<&str> {
        match &self.ask {
            Ask::Http { request, .. } => request.connection.as_deref(),
            Ask::Db { query, .. } => Some(&query.connection),
            Ask::Marker => None,
        }
    }

    /// Every expression of what it asks.
    #[must_use]
    pub fn exprs(&self) -> Vec<&Expr> {
        match &self.ask {
            Ask::Http { request, .. } => request.exprs(),
            Ask::Db { query, .. } => query.exprs(),
            Ask::Marker => Vec::new(),
        }
    }
}
