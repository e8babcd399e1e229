//! What a check knows about the world that a flow runs in, apart from the flow.

use std::collections::BTreeMap;

use semel_model::Span;

use crate::diagnostic::Severity;

/// What is known about the world that a flow runs in, apart from the flow.
#[derive(Clone, Debug, Default)]
pub struct CheckContext {
    /// The connections, by name.
    pub connections: BTreeMap<String, KnownConnection>,
    /// How much one matters that is not among them; where this is absent, it is not judged.
    pub unknown: Option<Severity>,
}

/// What is known about a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownConnection {
    /// How long its destination remembers an idempotency key; absent where it honours none.
    pub key_window: Option<Span>,
    /// What kind of destination it leads to, where that is known.
    pub kind: Option<&'static str>,
}
