//! `kv` steps, checked.

use semel_model::Span;
use semel_model::kv::{Operation, Verb};
use serde::Serialize;

use crate::expr::{EvalError, Expr, Scope};
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
        /// Only where this value is there.
        #[serde(skip_serializing_if = "Option::is_none")]
        expect: Option<Template>,
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
    /// Takes the lock of that name, or keeps it for longer.
    Lock {
        /// For how long, unless it is released before.
        lease: Span,
    },
    /// Releases the lock of that name.
    Unlock,
}

impl KvStep {
    /// Whether it changes anything.
    #[must_use]
    pub const fn is_read(&self) -> bool {
        matches!(self.verb, KvVerb::Get)
    }

    /// Every expression of it.
    #[must_use]
    pub fn exprs(&self) -> Vec<&Expr> {
        let mut exprs: Vec<&Expr> = self.entry.exprs().collect();
        if let KvVerb::Set { value, expect, .. } = &self.verb {
            exprs.extend(value.exprs());
            exprs.extend(expect.iter().flat_map(Template::exprs));
        }
        exprs
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
                expect,
                ttl,
            } => Verb::Set {
                value: value.render(scope)?,
                if_absent: *if_absent,
                expect: expect.as_ref().map(|it| it.render(scope)).transpose()?,
                ttl: *ttl,
            },
            KvVerb::Add { by, ttl } => Verb::Add { by: *by, ttl: *ttl },
            KvVerb::Delete => Verb::Delete,
            KvVerb::Lock { lease } => Verb::Lock { lease: *lease },
            KvVerb::Unlock => Verb::Unlock,
        };
        Ok(Operation { entry, verb })
    }
}
