//! Shapes of values: what `response`, `probe` and the results of steps have in them.
//!
//! One table, which the checker takes its types from and `semel explain` and `docs/shapes.md` are
//! written from. What a destination, a worker or a caller decides (the JSON of an answer) is `any`.

mod table;

pub use table::{
    ALL, APPROVAL, CALL, DB, DB_RESULT, EMIT, FOREACH, HTTP, KV_LOCK, KV_SET, KV_UNLOCK, LLM,
    NOTIFY, RESOURCE, RUN, SSH, SSH_DETACHED, STEP, TRIGGER, WAIT,
};

/// What a value is, as far as the language knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Anything.
    Any,
    /// Text.
    Text,
    /// A whole number.
    Int,
    /// A number.
    Number,
    /// True or false.
    Bool,
    /// A list of anything.
    List,
    /// A map of anything.
    Map,
    /// A map of this shape.
    Of(&'static ValueShape),
    /// A list of maps of this shape.
    ListOf(&'static ValueShape),
}

impl Kind {
    /// The kind as people read it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Text => "string",
            Self::Int => "int",
            Self::Number => "number",
            Self::Bool => "bool",
            Self::List => "list",
            Self::Map | Self::Of(_) => "map",
            Self::ListOf(_) => "list of maps",
        }
    }
}

/// One field of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueField {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Whether it may be null.
    pub nullable: bool,
    /// Whether it may be absent.
    pub optional: bool,
    /// What it says.
    pub about: &'static str,
}

/// A map that the language knows the fields of. It has no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueShape {
    /// What it is called in messages and pages.
    pub name: &'static str,
    /// Where it is met.
    pub about: &'static str,
    /// Its fields.
    pub fields: &'static [ValueField],
}
