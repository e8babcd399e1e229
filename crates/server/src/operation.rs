//! Operations: what a route takes and returns, written beside its path and its right.

use std::borrow::Cow;

use semel_api::Code;
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

/// A type, and how to describe it. Nothing is described before somebody asks for the document.
#[derive(Clone, Copy)]
pub(crate) struct TypeSchema {
    /// What the document calls it.
    pub(crate) name: fn() -> Cow<'static, str>,
    /// Its own schema.
    pub(crate) schema: fn() -> RefOr<Schema>,
    /// Adds the schemas of the types that it names.
    pub(crate) parts: fn(&mut Vec<(String, RefOr<Schema>)>),
}

impl TypeSchema {
    pub(crate) fn of<T: ToSchema>() -> Self {
        Self {
            name: T::name,
            schema: T::schema,
            parts: T::schemas,
        }
    }
}

/// What is in a body.
#[derive(Clone, Copy)]
pub(crate) enum Content {
    /// JSON of a type.
    Json(TypeSchema),
    /// A page of a list of a type.
    Page(TypeSchema),
    /// Any JSON.
    AnyJson,
    /// Another media type.
    Other(&'static str),
    /// Nothing.
    Nothing,
}

/// How the header `Idempotency-Key` is used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyUse {
    /// A client derives it from what it asks for, so that a repeat is the same command. The server
    /// carries out a command without one as well.
    Derived,
    /// The server needs one, in the header or in the body.
    Required,
}

impl KeyUse {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Derived => "derived",
            Self::Required => "required",
        }
    }
}

/// A parameter of the query that is no field of a type.
#[derive(Clone, Copy)]
pub(crate) struct QueryParameter {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it is for.
    pub(crate) about: &'static str,
    /// Its type.
    pub(crate) schema: TypeSchema,
    /// Whether it has to be there.
    pub(crate) required: bool,
}

/// What a route takes and returns.
pub(crate) struct Operation {
    /// What clients call it.
    pub(crate) id: &'static str,
    /// What it does, in one sentence.
    pub(crate) summary: &'static str,
    /// Types whose fields are parameters of the query.
    pub(crate) queries: Vec<TypeSchema>,
    /// Further parameters of the query.
    pub(crate) parameters: Vec<QueryParameter>,
    /// What it takes as its body.
    pub(crate) bodies: Vec<Content>,
    /// What it returns where it succeeds, by status. A status may stand more than once.
    pub(crate) answers: Vec<(u16, Content)>,
    /// Which errors it returns besides those that many operations share.
    pub(crate) problems: Vec<Code>,
    /// How it uses a key.
    pub(crate) key: Option<KeyUse>,
}

impl Operation {
    pub(crate) fn new(id: &'static str, summary: &'static str) -> Self {
        Self {
            id,
            summary,
            queries: Vec::new(),
            parameters: Vec::new(),
            bodies: Vec::new(),
            answers: Vec::new(),
            problems: Vec::new(),
            key: None,
        }
    }

    /// Whether it reads the query.
    pub(crate) fn has_query(&self) -> bool {
        !self.queries.is_empty() || !self.parameters.is_empty()
    }
}
