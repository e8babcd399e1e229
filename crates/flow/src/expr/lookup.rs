//! Looking into values: fields, indices, membership.

use serde_json::Value;

use super::error::{EvalErrorKind, named};
use super::fuel::Fuel;
use super::order::equal;
use super::value::{Map, Text, Val};

pub(super) fn walk_json<'a>(
    name: &str,
    value: &'a Value,
    fields: &[Box<str>],
) -> Result<Val<'a>, EvalErrorKind> {
    let mut found = value;
    for (index, field) in fields.iter().enumerate() {
        found = found.get(&**field).ok_or_else(|| {
            let path = std::iter::once(name).chain(fields[..index].iter().map(|field| &**field));
            EvalErrorKind::Missing {
                path: path.collect::<Vec<_>>().join("."),
                field: field.to_string(),
                has: match found {
                    Value::Object(map) => named(map.keys().map(String::as_str)),
                    Value::Null
                    | Value::Bool(_)
                    | Value::Number(_)
                    | Value::String(_)
                    | Value::Array(_) => Box::default(),
                },
            }
        })?;
    }
    Val::lend(found)
}

pub(super) fn walk<'a>(value: Val<'a>, fields: &[Box<str>]) -> Result<Val<'a>, EvalErrorKind> {
    fields.iter().try_fold(value, |value, field| match &value {
        Val::Map(map) => map.get(field).unwrap_or_else(|| Err(absent_in(map, field))),
        Val::Null | Val::Bool(_) | Val::Int(_) | Val::Double(_) | Val::Text(_) | Val::List(_) => {
            Err(absent(&format!("the {}", value.type_name()), field))
        }
    })
}

fn absent(path: &str, field: &str) -> EvalErrorKind {
    EvalErrorKind::Missing {
        path: path.to_owned(),
        field: field.to_owned(),
        has: Box::default(),
    }
}

fn absent_in(map: &Map<'_>, field: &str) -> EvalErrorKind {
    EvalErrorKind::Missing {
        path: "the map".to_owned(),
        field: field.to_owned(),
        has: map.named(),
    }
}

pub(super) fn index_of<'a>(of: &Val<'a>, index: &Val<'_>) -> Result<Val<'a>, EvalErrorKind> {
    match (of, index) {
        (Val::List(items), Val::Int(at)) => {
            let item = usize::try_from(*at).ok().and_then(|at| items.get(at));
            item.unwrap_or(Err(EvalErrorKind::Index {
                index: *at,
                len: items.len(),
            }))
        }
        (Val::Map(map), Val::Text(key)) => {
            let key = key.as_str();
            map.get(key).unwrap_or_else(|| Err(absent_in(map, key)))
        }
        (Val::List(_), other) => Err(wrong_index("a whole number", other)),
        (Val::Map(_), other) => Err(wrong_index("a string", other)),
        (other, _) => Err(wrong_index("a list or a map", other)),
    }
}

fn wrong_index(expected: &'static str, found: &Val<'_>) -> EvalErrorKind {
    EvalErrorKind::Type {
        operation: "[ ]",
        expected,
        found: found.type_name(),
    }
}

pub(super) fn contains(
    fuel: &mut Fuel,
    item: &Val<'_>,
    of: &Val<'_>,
) -> Result<bool, EvalErrorKind> {
    match (of, item) {
        (Val::Map(map), Val::Text(key)) => Ok(map.get(key.as_str()).is_some()),
        (Val::Map(_), _) => Ok(false),
        (Val::List(items), _) => {
            for known in items.iter() {
                if equal(fuel, &known?, item)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        (other, _) => Err(EvalErrorKind::Type {
            operation: "in",
            expected: "a list or a map",
            found: other.type_name(),
        }),
    }
}

pub(super) fn text_key(value: Val<'_>) -> Result<Text<'_>, EvalErrorKind> {
    match value {
        Val::Text(text) => Ok(text),
        other @ (Val::Null
        | Val::Bool(_)
        | Val::Int(_)
        | Val::Double(_)
        | Val::List(_)
        | Val::Map(_)) => Err(EvalErrorKind::Type {
            operation: "{ }",
            expected: "strings as keys",
            found: other.type_name(),
        }),
    }
}
