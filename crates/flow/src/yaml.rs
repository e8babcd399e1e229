//! YAML as a tree that knows where each part stands. No schema: that is the reader's.
//!
//! A scalar keeps its text, so `no` stays `no` where text is asked for. What makes a file mean
//! something that it does not show (anchors, aliases, tags, a second document) is refused.

mod build;
mod place;
mod scalar;

#[cfg(test)]
mod tests;

use std::ops::Range;

pub(crate) use build::parse;
pub(crate) use scalar::{Plain, plain};

/// Bytes of a file.
pub(crate) const FILE_BYTES_MAX: usize = 256 * 1024;
/// Collections inside collections.
pub(crate) const DEPTH_MAX: usize = 32;
/// Scalars and collections of a file.
pub(crate) const NODE_COUNT_MAX: usize = 20_000;

/// One node and its bytes in the file.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) span: Range<usize>,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A text, and how it was written.
#[derive(Clone, Debug)]
pub(crate) struct Scalar {
    pub(crate) text: String,
    pub(crate) style: Style,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Single,
    Double,
    Block,
}

/// One field of a map.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_span: Range<usize>,
    pub(crate) value: Node,
}

/// What is wrong with a file before its content is interpreted.
#[derive(Clone, Debug)]
pub(crate) struct SeededBug {
    pub(crate) code: crate::diagnostic::Code,
    pub(crate) span: Range<usize>,
    pub(crate) message: String,
    pub(crate) help: &'static str,
}

impl Node {
    /// What it is, for a message.
    pub(crate) fn kind_name(&self) -> &'static str {
        match &self.kind {
            Kind::Scalar(scalar) if scalar.text.is_empty() => "nothing",
            Kind::Scalar(_) => "text",
            Kind::List(_) => "a list",
            Kind::Map(_) => "a map",
        }
    }

    pub(crate) fn as_scalar(&self) -> Option<&Scalar> {
        match &self.kind {
            Kind::Scalar(scalar) => Some(scalar),
            Kind::List(_) | Kind::Map(_) => None,
        }
    }
}
