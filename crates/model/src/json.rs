//! JSON as it comes in from outside, read strictly.
//!
//! Two different payloads must never have one fingerprint. So what canonical JSON would fold
//! together is refused at the edge: repeated object members, and integers that a double cannot
//! hold.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// How deep a payload may nest.
pub const JSON_DEPTH_MAX: usize = 64;

const EXACT_MAX: u64 = 1 << 53;

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

fn depth(value: &Value) -> usize {
    // serde_json stops at 128 levels by itself, so this recursion is bounded.
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
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
