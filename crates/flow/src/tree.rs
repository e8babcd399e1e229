//! The whole of a file as it was read: every field of the grammar, with its place.
//!
//! A tree knows more than a release: it holds what this build cannot run yet,
//! what only `check` needs, and where each part stands. Rules work on it; a release is made from it.

mod canonical;
mod view;

pub use canonical::Tree;
pub(crate) use canonical::json as json_of;
pub(crate) use view::env_of;

use std::ops::Range;

use semel_model::Span;
use serde_json::Value as Json;

use crate::expr::{Expr, Path};
use crate::grammar::MapSchema;
use crate::template::{Template, TextTemplate};
use crate::yaml::Node;

/// A map of the grammar, as far as it could be read.
#[derive(Clone)]
pub(crate) struct Record {
    pub(crate) schema: &'static MapSchema,
    /// The place that stands for the whole map.
    pub(crate) span: Range<usize>,
    /// In the order of the table.
    pub(crate) fields: Vec<Entry>,
}

/// A field that stands in the file.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) name_span: Range<usize>,
    pub(crate) value_span: Range<usize>,
    /// Absent where it could not be read, which has been reported.
    pub(crate) value: Option<Value>,
}

/// What was read of a field.
#[derive(Clone)]
pub(crate) enum Value {
    Text(String),
    Word(&'static str),
    Truth(bool),
    Whole(i64),
    Span(Span),
    Expr(Placed),
    Holes(TextTemplate, Vec<Placed>),
    Template(Template, Vec<Placed>),
    Json(Json),
    Map(Record),
    Named(Vec<NamedEntry>),
    List(Vec<Item>),
}

/// One entry of a map whose names are the author's.
#[derive(Clone)]
pub(crate) struct NamedEntry {
    pub(crate) name: String,
    pub(crate) name_span: Range<usize>,
    pub(crate) value: Value,
}

/// One item of a list.
#[derive(Clone)]
pub(crate) struct Item {
    pub(crate) value: Value,
}

/// An expression and where it stands.
#[derive(Clone)]
pub(crate) struct Placed {
    pub(crate) expr: Expr,
    /// The scalar that holds it.
    node: Node,
    /// Where it begins in the scalar's text.
    base: usize,
}

impl Placed {
    pub(crate) const fn new(expr: Expr, node: Node, base: usize) -> Self {
        Self { expr, node, base }
    }

    /// The bytes of the file behind a path of the expression.
    pub(crate) fn path_span(&self, source: &str, path: &Path) -> Range<usize> {
        self.node.place(source, self.base + path.offset, path.len)
    }

    /// The bytes of the file behind a part of the expression.
    pub(crate) fn part_span(&self, source: &str, offset: usize, len: usize) -> Range<usize> {
        self.node.place(source, self.base + offset, len)
    }

    /// The bytes of the scalar that holds the expression.
    pub(crate) fn span(&self) -> Range<usize> {
        self.node.span.clone()
    }
}
