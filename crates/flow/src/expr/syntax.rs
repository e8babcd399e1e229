//! The lowered tree: what is left of CEL once it is checked.
//!
//! Chains are flat (`a + b + c` is one node with three terms), so the depth of the tree, and with it
//! the depth of an evaluation, does not grow with the length of the text.

use std::fmt;

use regex::Regex;

use super::builtin::Builtin;

/// One node, and where it stands in the source.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) at: usize,
    pub(crate) kind: Kind,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Literal(Literal),
    /// A name and the fields behind it.
    Path(Root, Box<[Box<str>]>),
    /// A field of something that is not a name.
    Field(Box<Node>, Box<[Box<str>]>),
    /// `has(a.b)`: the operand and the field that may be absent.
    Has(Box<Node>, Box<str>),
    Index(Box<Node>, Box<Node>),
    Not(Box<Node>),
    Negate(Box<Node>),
    /// The first operand, then operators of one precedence from left to right.
    Chain(Box<Node>, Vec<(Operator, Node)>),
    Compare(Relation, Box<Node>, Box<Node>),
    And(Vec<Node>),
    Or(Vec<Node>),
    If(Box<[Node; 3]>),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
    Call(Builtin, Vec<Node>),
    /// `default(a, b)`: the second where the first is absent or null.
    Default(Box<[Node; 2]>),
    Matches(Box<Node>, Box<Pattern>),
    Each(Box<Each>),
}

#[derive(Debug)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(Box<str>),
}

/// Where a path begins.
#[derive(Debug)]
pub(crate) enum Root {
    Name(Box<str>),
    /// The variable of the comprehension at this depth, counted from the outermost.
    Bound(usize, Box<str>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
}

/// A pattern that is a literal, so that it is compiled once and its cost is known.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub(crate) source: Box<str>,
    pub(crate) regex: Regex,
    /// Steps per 1,024 bytes of text, by the size of the compiled pattern.
    pub(crate) steps_per_kib: usize,
}

/// A comprehension: one variable that walks over a list or the keys of a map.
#[derive(Debug)]
pub(crate) struct Each {
    pub(crate) kind: EachKind,
    pub(crate) over: Node,
    pub(crate) variable: Box<str>,
    pub(crate) filter: Option<Node>,
    pub(crate) body: Node,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EachKind {
    All,
    Exists,
    ExistsOne,
    Map,
    Filter,
}

impl EachKind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Exists => "exists",
            Self::ExistsOne => "exists_one",
            Self::Map => "map",
            Self::Filter => "filter",
        }
    }
}

/// A path of the scope that an expression reads: `steps.charge.result`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The name that stands first.
    pub root: String,
    /// The fields behind it, as far as they are known before the run.
    pub fields: Vec<String>,
    /// The byte of the source at which the path begins.
    pub offset: usize,
    /// How many bytes of the source it covers.
    pub len: usize,
}

impl Path {
    /// Whether a byte of the source belongs to the path.
    pub(crate) const fn covers(&self, at: usize) -> bool {
        self.offset <= at && at < self.offset + self.len
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.root)?;
        self.fields
            .iter()
            .try_for_each(|field| write!(f, ".{field}"))
    }
}
