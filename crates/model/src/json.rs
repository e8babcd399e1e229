//! JSON as it comes in from outside, read strictly.
//!
//! Two different payloads must never have one fingerprint. So what canonical JSON would fold
//! together is refused at the edge: repeated object members, and integers that a double cannot
//! hold. Results of destinations are not refused: what happened, happened. Their integers are kept
//! as they are, and enter a [`Fingerprint`](crate::Fingerprint) by their text.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// How deep a payload may nest.
pub const JSON_DEPTH_MAX: usize = 64;

/// How deep a result may nest: of a destination, a model or a list of child runs. JSON readers stop
/// at 128 levels, and a result is some levels deeper in the journal, from where it must be read
/// back.
pub const RESULT_DEPTH_MAX: usize = 100;

/// How much of a value that nests too deep is kept as text.
const TOO_DEEP_CHARS_MAX: usize = 64 * 1024;

/// Up to here, a double holds every whole number.
pub(crate) const EXACT_MAX: u64 = 1 << 53;

/// The text is not JSON that can be fingerprinted.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct StrictError(String);

/// Reads one JSON value; refuses repeated members, integers beyond 2^53 and deep nesting.
pub fn parse_strict(text: &[u8]) -> Result<Value, StrictError> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let value = Strict::deserialize(&mut reader).map_err(|error| StrictError(error.to_string()))?;
    reader
        .end()
        .map_err(|error| StrictError(error.to_string()))?;
    if depth(&value.0) > JSON_DEPTH_MAX {
        return Err(StrictError(format!("nested deeper than {JSON_DEPTH_MAX}")));
    }
    Ok(value.0)
}

/// How deep a value nests. No value that was read or worked out is deep enough to make this
/// recursion dangerous: readers stop at 128 levels.
pub fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Whether a value nests too deep to be read back as a result.
pub fn is_too_deep(value: &Value) -> bool {
    depth(value) > RESULT_DEPTH_MAX
}

/// The value itself, or `{too_deep, text}` with its JSON text where it nests too deep to be read
/// back. An effect that happened has a readable result, whatever the destination answered.
pub fn readable(value: Value) -> Value {
    if !is_too_deep(&value) {
        return value;
    }
    unreadable(&value.to_string())
}

/// Reads a value that was stored as JSON. A value that nests too deep to be read is returned as its
/// text, so that one value never stops a reader of many.
pub fn read_back(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(value) => value,
        Err(_) => unreadable(text),
    }
}

fn unreadable(text: &str) -> Value {
    let text: String = text.chars().take(TOO_DEEP_CHARS_MAX).collect();
    let members = [("too_deep", Value::Bool(true)), ("text", text.into())];
    let members = members.map(|(name, value)| (name.to_owned(), value));
    Value::Object(members.into_iter().collect())
}

/// What a parsed JSON value costs beyond its text, for each of its nodes.
const NODE_BYTES: usize = 64;

/// About how much memory a JSON text takes once it is parsed, its own bytes included. An upper
/// bound: a megabyte of empty arrays becomes far more than a megabyte.
pub fn parsed_bytes(text: &[u8]) -> usize {
    // Counted in pieces whose sum fits a byte, so that the machine counts many at once.
    let begins = |byte: &u8| u8::from(matches!(byte, b',' | b'[' | b'{' | b':'));
    let pieces = text.chunks(usize::from(u8::MAX));
    let nodes: usize = pieces
        .map(|piece| usize::from(piece.iter().map(begins).sum::<u8>()))
        .sum();
    text.len() * 2 + (nodes + 1) * NODE_BYTES
}

/// About how much memory a parsed JSON value takes.
pub fn value_bytes(value: &Value) -> usize {
    let inside = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(value_bytes).sum(),
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| name.len() + value_bytes(value);
            members.iter().map(member).sum()
        }
    };
    NODE_BYTES + inside
}

/// Whether two values are the same to an author: spelling, the order of members and the format of
/// numbers do not count. Whole numbers are compared exactly, however large they are.
pub fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let found = |(name, one)| other.get(name).is_some_and(|other| same(one, other));
            one.len() == other.len() && one.iter().all(found)
        }
        (Value::Number(one), Value::Number(other)) => {
            one == other || (one.is_f64() || other.is_f64()) && one.as_f64() == other.as_f64()
        }
        (
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_),
            _,
        ) => one == other,
    }
}

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Value, E> {
        exact(value.unsigned_abs()).map(|()| Value::from(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        exact(value)?;
        i64::try_from(value).map(Value::from).map_err(E::custom)
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        // Integers too large for 64 bits arrive here, already rounded.
        if value.fract() == 0.0 && value.abs() > EXACT_MAX as f64 {
            return Err(E::custom("an integer beyond 2^53: send it as a string"));
        }
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("not a finite number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let Strict(value) = members.next_value()?;
            if map.contains_key(&name) {
                return Err(A::Error::custom(format_args!(
                    "the member {name:?} stands twice"
                )));
            }
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}

fn exact<E: serde::de::Error>(magnitude: u64) -> Result<(), E> {
    if magnitude > EXACT_MAX {
        return Err(E::custom("an integer beyond 2^53: send it as a string"));
    }
    Ok(())
}

/// About how long a value is as JSON text. Escapes are not counted: a text of nothing else is six
/// times as long.
pub fn estimated_json_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => {
            items
                .iter()
                .map(|item| estimated_json_bytes(item) + 1)
                .sum::<usize>()
                + 2
        }
        Value::Object(fields) => {
            let field =
                |(name, value): (&String, &Value)| name.len() + 4 + estimated_json_bytes(value);
            fields.iter().map(field).sum::<usize>() + 2
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn nested(levels: usize) -> Value {
        (0..levels).fold(Value::Null, |inner, _| Value::Array(vec![inner]))
    }

    #[test]
    fn a_text_of_many_small_values_is_heavier_than_it_looks() {
        let arrays = format!("[{}]", "[],".repeat(1000));

        let value: Value = serde_json::from_str(&arrays.replace("],]", "]]")).unwrap();
        let nodes = value.as_array().unwrap().len();

        assert!(parsed_bytes(arrays.as_bytes()) > nodes * size_of::<Value>() * 2);
        assert_eq!(value_bytes(&value), (nodes + 1) * NODE_BYTES);
        assert!(parsed_bytes(b"{\"id\":1}") < 1024);
        assert_eq!(parsed_bytes(&[b'['; 1000]), 2000 + 1001 * NODE_BYTES);
    }

    #[test]
    fn what_nests_too_deep_is_kept_as_text() {
        assert_eq!(readable(nested(100)), nested(100));

        let cut = readable(nested(101));

        assert_eq!(cut["too_deep"], json!(true));
        assert!(cut["text"].as_str().unwrap().starts_with("[[[["));
        assert!(parse_strict(nested(64).to_string().as_bytes()).is_ok());
        assert!(parse_strict(nested(65).to_string().as_bytes()).is_err());
    }

    #[test]
    fn values_are_compared_as_an_author_sees_them() {
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();

        assert!(same(
            &read(r#"{"a":1,"b":[2]}"#),
            &read(r#"{"b":[2.0],"a":1.0}"#)
        ));
        assert!(!same(&read("[1]"), &read("[1,1]")));
        assert!(!same(&read(r#"{"a":1}"#), &read(r#"{"b":1}"#)));
        assert!(!same(&read("9007199254740993"), &read("9007199254740992")));
        assert!(same(&json!("a\u{0}b"), &json!("a\u{0}b")));
    }
}
