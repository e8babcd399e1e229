//! Values during an evaluation: lent from the scope where possible, made and counted otherwise.

use std::rc::Rc;

use serde_json::{Map as JsonMap, Value};

use super::error::{EvalErrorKind, named};
use super::limits::{OUTPUT_BYTES_MAX, OUTPUT_DEPTH_MAX};

/// A value. Cloning one is cheap: what is large is behind a reference.
#[derive(Clone, Debug)]
pub(crate) enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(Text<'a>),
    List(List<'a>),
    Map(Map<'a>),
}

#[derive(Clone, Debug)]
pub(crate) enum Text<'a> {
    Lent(&'a str),
    Made(Rc<str>),
}

#[derive(Clone, Debug)]
pub(crate) enum List<'a> {
    Lent(&'a [Value]),
    Made(Rc<[Val<'a>]>),
}

#[derive(Clone, Debug)]
pub(crate) enum Map<'a> {
    Lent(&'a JsonMap<String, Value>),
    /// Sorted by key, every key once.
    Made(Rc<[(Text<'a>, Val<'a>)]>),
}

impl<'a> Val<'a> {
    /// Looks at a JSON value without copying it.
    ///
    /// An integer that does not fit is refused: as a double it would equal its neighbours.
    pub(crate) fn lend(value: &'a Value) -> Result<Self, EvalErrorKind> {
        Ok(match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(value), _) => Self::Int(value),
                (None, Some(value)) if number.is_f64() => Self::Double(value),
                _ => return Err(EvalErrorKind::Overflow("reading a number")),
            },
            Value::String(text) => Self::Text(Text::Lent(text)),
            Value::Array(items) => Self::List(List::Lent(items)),
            Value::Object(fields) => Self::Map(Map::Lent(fields)),
        })
    }

    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::List(_) => "list",
            Self::Map(_) => "map",
        }
    }

    /// Copies the value out, within the limits of a result.
    pub(crate) fn into_json(self) -> Result<Value, EvalErrorKind> {
        Output {
            bytes: OUTPUT_BYTES_MAX,
        }
        .json(&self, 0)
    }
}

impl Text<'_> {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Lent(text) => text,
            Self::Made(text) => text,
        }
    }
}

impl<'a> List<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Lent(items) => items.len(),
            Self::Made(items) => items.len(),
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<Result<Val<'a>, EvalErrorKind>> {
        match self {
            Self::Lent(items) => items.get(index).map(Val::lend),
            Self::Made(items) => items.get(index).cloned().map(Ok),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Result<Val<'a>, EvalErrorKind>> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}

impl<'a> Map<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Lent(fields) => fields.len(),
            Self::Made(fields) => fields.len(),
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<Result<Val<'a>, EvalErrorKind>> {
        match self {
            Self::Lent(fields) => fields.get(key).map(Val::lend),
            Self::Made(fields) => {
                let found = fields
                    .binary_search_by(|(known, _)| known.as_str().cmp(key))
                    .ok()?;
                Some(Ok(fields[found].1.clone()))
            }
        }
    }

    /// The first few keys, for a message.
    pub(crate) fn named(&self) -> Box<str> {
        match self {
            Self::Lent(fields) => named(fields.keys().map(String::as_str)),
            Self::Made(fields) => named(fields.iter().map(|(key, _)| key.as_str())),
        }
    }

    /// The keys in sorted order: the order of a JSON object means nothing and may change when it
    /// is stored, so nothing may depend on it.
    pub(crate) fn keys(&self) -> Vec<Text<'a>> {
        match self {
            Self::Lent(fields) => {
                let mut keys: Vec<&'a str> = fields.keys().map(String::as_str).collect();
                keys.sort_unstable();
                keys.into_iter().map(Text::Lent).collect()
            }
            Self::Made(fields) => fields.iter().map(|(key, _)| key.clone()).collect(),
        }
    }
}

/// What a result may still take.
struct Output {
    bytes: usize,
}

impl Output {
    fn take(&mut self, bytes: usize) -> Result<(), EvalErrorKind> {
        self.bytes = self
            .bytes
            .checked_sub(bytes)
            .ok_or(EvalErrorKind::Limit("output"))?;
        Ok(())
    }

    fn json(&mut self, value: &Val<'_>, depth: usize) -> Result<Value, EvalErrorKind> {
        if depth > OUTPUT_DEPTH_MAX {
            return Err(EvalErrorKind::Limit("depth"));
        }
        self.take(4)?;
        Ok(match value {
            Val::Null => Value::Null,
            Val::Bool(value) => Value::Bool(*value),
            Val::Int(value) => Value::from(*value),
            Val::Double(value) => double(*value)?,
            Val::Text(text) => Value::String(self.text(text)?),
            Val::List(items) => {
                let items = items.iter().map(|item| self.json(&item?, depth + 1));
                Value::Array(items.collect::<Result<_, EvalErrorKind>>()?)
            }
            Val::Map(fields) => Value::Object(self.object(fields, depth)?),
        })
    }

    fn object(
        &mut self,
        map: &Map<'_>,
        depth: usize,
    ) -> Result<JsonMap<String, Value>, EvalErrorKind> {
        let mut object = JsonMap::new();
        for key in map.keys() {
            let Some(value) = map.get(key.as_str()) else {
                continue;
            };
            let value = self.json(&value?, depth + 1)?;
            object.insert(self.text(&key)?, value);
        }
        Ok(object)
    }

    fn text(&mut self, text: &Text<'_>) -> Result<String, EvalErrorKind> {
        self.take(text.as_str().len())?;
        Ok(text.as_str().to_owned())
    }
}

fn double(value: f64) -> Result<Value, EvalErrorKind> {
    serde_json::Number::from_f64(value)
        .map(Value::Number)
        .ok_or_else(|| {
            EvalErrorKind::Invalid("a result cannot be infinite or not a number".to_owned())
        })
}
