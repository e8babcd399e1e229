//! Shapes of values: what `response`, `probe` and the results of steps have in them.
//!
//! The checker takes its types from them, and `semel explain` and `docs/shapes.md` are written from
//! them. Those of a kind of step stand with the kind. What a destination, a worker or a caller decides (the JSON of an answer) is `any`.

/// What a value is, as far as the language knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
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

impl ValueKind {
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
    pub kind: ValueKind,
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
    /// Where it occurs.
    pub about: &'static str,
    /// Its fields.
    pub fields: &'static [ValueField],
}

/// A field that is always there.
pub(crate) const fn value(name: &'static str, kind: ValueKind, about: &'static str) -> ValueField {
    ValueField {
        name,
        kind,
        nullable: false,
        optional: false,
        about,
    }
}

impl ValueField {
    pub(crate) const fn or_null(mut self) -> Self {
        self.nullable = true;
        self
    }

    pub(crate) const fn maybe(mut self) -> Self {
        self.optional = true;
        self
    }
}

/// A reference to bytes that are kept elsewhere.
pub(crate) static RESOURCE: ValueShape = ValueShape {
    name: "resource",
    about: "result of a `persist` step, and of any step whose result is over 64 KiB",
    fields: &[
        value("resource", ValueKind::Text, "`res://` and the digest."),
        value("bytes", ValueKind::Int, "The number of bytes."),
        value("type", ValueKind::Text, "The media type."),
    ],
};
