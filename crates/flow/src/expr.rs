//! Expressions: CEL read by the `cel` crate, lowered into our own tree, evaluated with fuel.
//!
//! The crate's own interpreter has no budget: a kilobyte of nested `map` keeps it busy for a
//! minute. Here every step of an evaluation is paid for, so an expression that compiles ends within
//! its [`limits`], whatever it is given. Values are looked at where they lie; nothing of the scope is
//! copied. There is no clock, no randomness and no way to the outside.

mod arithmetic;
mod builtin;
mod error;
mod eval;
mod fuel;
mod lookup;
mod lower;
mod order;
mod parse;
mod scan;
mod scope;
mod shape;
mod syntax;
mod text;
mod value;

pub mod limits;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::Value;

pub use error::{EvalError, EvalErrorKind};
pub(crate) use parse::{is_name, with_deep_stack};
pub(crate) use scan::hole_end;
pub use scope::Scope;
pub use syntax::Path;

pub(crate) use builtin::Builtin;
pub(crate) use shape::each_child;
pub(crate) use syntax::{Kind, Literal, Node, Operator, Relation, Root};

/// A compiled expression. Cheap to clone, safe to share, the same for every spelling of itself.
#[derive(Clone)]
pub struct Expr(Arc<Compiled>);

struct Compiled {
    text: String,
    terms: Vec<String>,
    node: Node,
    references: Vec<Path>,
}

impl Expr {
    /// Reads an expression that may name the given roots and nothing else.
    ///
    /// # Errors
    ///
    /// Says where the text is not an expression, or why it may not be one.
    pub fn compile(source: &str, roots: &[&str]) -> Result<Self, ExprError> {
        if let Some(expr) = Self::compile_path(source, roots) {
            return Ok(expr);
        }
        with_deep_stack(|| Self::compile_here(source, roots))
    }

    /// Like [`Expr::compile`], for a caller that already stands on a deep stack.
    pub(crate) fn compile_here(source: &str, roots: &[&str]) -> Result<Self, ExprError> {
        if let Some(expr) = Self::compile_path(source, roots) {
            return Ok(expr);
        }
        let lowered = parse::parse(source, roots)?;
        Ok(Self::new(lowered.node, lowered.references))
    }

    /// Most expressions are dotted names, which need no grammar.
    fn compile_path(source: &str, roots: &[&str]) -> Option<Self> {
        let lowered = parse::plain_path(source, roots)?;
        Some(Self::new(lowered.node, lowered.references))
    }

    fn new(node: Node, references: Vec<Path>) -> Self {
        let text = node.to_string();
        let terms = if let Kind::And(terms) = &node.kind {
            terms.iter().map(ToString::to_string).collect()
        } else {
            vec![text.clone()]
        };
        Self(Arc::new(Compiled {
            text,
            terms,
            node,
            references,
        }))
    }

    /// Works the expression out over a scope.
    ///
    /// # Errors
    ///
    /// Says which part could not be evaluated, or which limit it reached.
    pub fn eval(&self, scope: &Scope<'_>) -> Result<Value, EvalError> {
        eval::to_json(&self.0.node, scope)
    }

    /// The value itself, if the expression is a path of the scope and nothing else. It is not
    /// copied, so the limits of a result do not apply to it.
    #[must_use]
    pub fn find<'a>(&self, scope: &Scope<'a>) -> Option<&'a Value> {
        let Kind::Path(Root::Name(name), fields) = &self.0.node.kind else {
            return None;
        };
        let mut fields = fields.iter();
        fields.try_fold(scope.find(name)?, |value, field| value.get(&**field))
    }

    /// Evaluates a condition.
    ///
    /// # Errors
    ///
    /// As [`Expr::eval`], and where the value is neither `true` nor `false`.
    pub fn eval_bool(&self, scope: &Scope<'_>) -> Result<bool, EvalError> {
        eval::to_bool(&self.0.node, scope)
    }

    /// Evaluates a point in time.
    ///
    /// # Errors
    ///
    /// As [`Expr::eval`], and where the value is no RFC 3339 text.
    pub fn eval_instant(&self, scope: &Scope<'_>) -> Result<jiff::Timestamp, EvalError> {
        let value = self.eval(scope)?;
        let read = value.as_str().and_then(|text| text.parse().ok());
        read.ok_or_else(|| {
            let reason = format!("{value} is no point in time: write 2027-01-31T09:00:00Z");
            error::EvalErrorKind::Invalid(reason).at(0)
        })
    }

    /// Every path of the scope that the expression reads, bound variables aside.
    #[must_use]
    pub fn references(&self) -> &[Path] {
        &self.0.references
    }

    /// Whether the expression reads nothing, and so yields the same for every run.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        self.0.references.is_empty()
    }

    /// What is true where the expression is true: the expression itself, and the terms of its `&&`.
    pub(crate) fn terms(&self) -> Vec<&str> {
        self.0.terms.iter().map(String::as_str).collect()
    }

    /// The expression in its one canonical spelling.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0.text
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl fmt::Debug for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Expr({})", self.0.text)
    }
}

impl PartialEq for Expr {
    fn eq(&self, other: &Self) -> bool {
        self.0.text == other.0.text
    }
}

impl Eq for Expr {}

impl Serialize for Expr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.text)
    }
}

/// Why a text is not an expression, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ExprError {
    /// Which kind of mistake it is.
    pub kind: ExprErrorKind,
    /// The byte at which the mistake begins.
    pub offset: usize,
    /// How many bytes it covers.
    pub len: usize,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub fix: String,
}

/// The kinds of mistakes in an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExprErrorKind {
    /// The text does not follow the grammar, or uses a form that is left out.
    Syntax,
    /// A name that is not in scope here.
    UnknownName,
    /// A function that does not exist, or not with that many arguments.
    UnknownFunction,
    /// Longer, deeper or costlier than an expression may be.
    TooCostly,
}
