//! JSON with holes: bodies, values to store, whatever an author writes as a value.

use semel_model::json::depth;
use serde::ser::{SerializeMap as _, SerializeSeq as _};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::{Piece, holes, pieces, spell};
use crate::expr::limits::{OUTPUT_BYTES_MAX, OUTPUT_DEPTH_MAX};
use crate::expr::{EvalError, EvalErrorKind, Expr, ExprError, Scope, with_deep_stack};

/// The most bytes that the holes of one template yield together.
const RENDERED_BYTES_MAX: usize = 4 * OUTPUT_BYTES_MAX;

/// A JSON value with holes.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    node: Node,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    /// Null, a bool or a number: nothing that could hold a hole.
    Plain(Value),
    Text(Vec<Piece>),
    List(Vec<Template>),
    /// Sorted by key.
    Map(Vec<(String, Template)>),
}

impl Template {
    /// Reads a value whose texts may have holes that name the given roots.
    ///
    /// # Errors
    ///
    /// Every hole that is not an expression; offsets count within its own text.
    pub fn compile(value: &Value, roots: &[&str]) -> Result<Self, Vec<ExprError>> {
        with_deep_stack(|| Self::compile_here(value, roots))
    }

    fn compile_here(value: &Value, roots: &[&str]) -> Result<Self, Vec<ExprError>> {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(Self::plain(value.clone())),
            Value::String(text) => Self::text(text, roots),
            Value::Array(items) => {
                let items = items.iter().map(|item| Self::compile_here(item, roots));
                items.collect::<Result<_, _>>().map(Self::list)
            }
            Value::Object(fields) => {
                let fields = fields
                    .iter()
                    .map(|(key, value)| Ok((key.clone(), Self::compile_here(value, roots)?)));
                fields.collect::<Result<_, _>>().map(Self::map)
            }
        }
    }

    pub(crate) fn plain(value: Value) -> Self {
        Self {
            node: Node::Plain(value),
        }
    }

    pub(crate) fn text(text: &str, roots: &[&str]) -> Result<Self, Vec<ExprError>> {
        let pieces = pieces(text, roots)?;
        Ok(Self {
            node: Node::Text(pieces),
        })
    }

    pub(crate) fn list(items: Vec<Self>) -> Self {
        Self {
            node: Node::List(items),
        }
    }

    pub(crate) fn map(mut fields: Vec<(String, Self)>) -> Self {
        fields.sort_by(|(left, _), (right, _)| left.cmp(right));
        Self {
            node: Node::Map(fields),
        }
    }

    /// The value with every hole evaluated.
    ///
    /// # Errors
    ///
    /// If a hole cannot be evaluated or spliced, or all of them yield too much.
    pub fn render(&self, scope: &Scope<'_>) -> Result<Value, EvalError> {
        let mut left = RENDERED_BYTES_MAX;
        let value = self.render_within(scope, &mut left)?;
        // A hole alone is within the limit already.
        let has_levels = matches!(self.node, Node::List(_) | Node::Map(_));
        match has_levels && depth(&value) > OUTPUT_DEPTH_MAX {
            true => Err(EvalErrorKind::Limit("depth").at(0)),
            false => Ok(value),
        }
    }

    fn render_within(&self, scope: &Scope<'_>, left: &mut usize) -> Result<Value, EvalError> {
        match &self.node {
            Node::Plain(value) => Ok(value.clone()),
            Node::Text(pieces) => {
                let value = render_text(pieces, scope)?;
                *left = left
                    .checked_sub(weight(&value))
                    .ok_or_else(|| EvalErrorKind::Limit("output").at(0))?;
                Ok(value)
            }
            Node::List(items) => {
                let items = items.iter().map(|item| item.render_within(scope, left));
                items.collect::<Result<_, _>>().map(Value::Array)
            }
            Node::Map(fields) => {
                let mut object = Map::new();
                for (key, value) in fields {
                    object.insert(key.clone(), value.render_within(scope, left)?);
                }
                Ok(Value::Object(object))
            }
        }
    }

    /// The expressions in the value, in reading order.
    #[must_use]
    pub fn exprs(&self) -> Vec<&Expr> {
        let mut found = Vec::new();
        self.gather(&mut found);
        found
    }

    fn gather<'a>(&'a self, found: &mut Vec<&'a Expr>) {
        match &self.node {
            Node::Plain(_) => {}
            Node::Text(pieces) => found.extend(holes(pieces)),
            Node::List(items) => items.iter().for_each(|item| item.gather(found)),
            Node::Map(fields) => fields.iter().for_each(|(_, value)| value.gather(found)),
        }
    }
}

impl Serialize for Template {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.node {
            Node::Plain(value) => value.serialize(serializer),
            Node::Text(pieces) => serializer.serialize_str(&spell(pieces)),
            Node::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                items
                    .iter()
                    .try_for_each(|item| list.serialize_element(item))?;
                list.end()
            }
            Node::Map(fields) => {
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                fields
                    .iter()
                    .try_for_each(|(key, value)| map.serialize_entry(key, value))?;
                map.end()
            }
        }
    }
}

fn render_text(pieces: &[Piece], scope: &Scope<'_>) -> Result<Value, EvalError> {
    if let [Piece::Hole(expr)] = pieces {
        return expr.eval(scope);
    }
    let mut text = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(plain) => text.push_str(plain),
            Piece::Hole(expr) => text.push_str(&super::text::text_of(expr, scope)?),
        }
    }
    Ok(Value::String(text))
}

/// About how many bytes a value takes as JSON.
fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(weight).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields
                .iter()
                .map(|(key, value)| key.len() + 3 + weight(value))
                .sum::<usize>()
        }
    }
}
