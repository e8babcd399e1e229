//! `kv` steps, checked.

use semel_model::kv::{Operation, Verb};
use semel_model::{Guard, Span};
use serde::Serialize;

use crate::expr::{EvalError, Scope};
use crate::template::{Template, TextTemplate};

/// One operation on one entry.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KvStep {
    /// The entry's name.
    pub entry: TextTemplate,
    /// What is done with it.
    #[serde(flatten)]
    pub verb: KvVerb,
}

/// What is done with an entry.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "verb", rename_all = "snake_case")]
pub enum KvVerb {
    /// Reads the value.
    Get,
    /// Writes a value.
    Set {
        /// The value.
        value: Template,
        /// Only where there is no value yet.
        if_absent: bool,
        /// After how long the entry vanishes.
        ttl: Option<Span>,
    },
    /// Adds to a whole number.
    Add {
        /// How much.
        by: i64,
        /// After how long the entry vanishes.
        ttl: Option<Span>,
    },
    /// Removes the entry.
    Delete,
}

impl KvStep {
    /// A write commits together with its marker; a read needs no guard.
    #[must_use]
    pub const fn guard(&self) -> Option<Guard> {
        match self.verb {
            KvVerb::Get => None,
            KvVerb::Set { .. } | KvVerb::Add { .. } | KvVerb::Delete => Some(Guard::Transaction),
        }
    }

    /// The operation with every hole worked out.
    ///
    /// # Errors
    ///
    /// Where a hole cannot be worked out.
    pub fn render(&self, scope: &Scope<'_>) -> Result<Operation, EvalError> {
        let entry = self.entry.render(scope)?;
        let verb = match &self.verb {
            KvVerb::Get => Verb::Get,
            KvVerb::Set {
                value,
                if_absent,
                ttl,
            } => Verb::Set {
                value: value.render(scope)?,
                if_absent: *if_absent,
                ttl: *ttl,
            },
            KvVerb::Add { by, ttl } => Verb::Add { by: *by, ttl: *ttl },
            KvVerb::Delete => Verb::Delete,
        };
        Ok(Operation { entry, verb })
    }
}
