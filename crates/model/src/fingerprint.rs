//! Fingerprints: whether two payloads are the same work.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::json::EXACT_MAX;
use crate::key::Key;

/// Sixteen bytes of SHA-256 over a payload's canonical form (RFC 8785), and over the whole numbers
/// that it would fold together.
///
/// Spelling, member order and number format do not enter into it. Canonical form has doubles only.
/// [`crate::json::parse_strict`] refuses senders an integer beyond 2^53; what destinations answer
/// may have some, and each enters by its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(Uuid);

impl Fingerprint {
    /// The fingerprint of a payload.
    pub fn of(payload: &Value) -> Self {
        let mut sink = Sink(Sha256::new());
        // The canonical form of a parsed value always exists: its numbers are finite, its names
        // are strings, and the sink never fails.
        let written = serde_json_canonicalizer::to_writer(payload, &mut sink);
        assert!(written.is_ok(), "a parsed JSON value has a canonical form");
        add_large(payload, &mut sink.0);
        let full = sink.0.finalize();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&full[..16]);
        Self(Uuid::from_bytes(bytes))
    }

    /// The fingerprint of a payload together with the key that it came with, for what is judged by
    /// both.
    #[must_use]
    pub fn with_key(self, key: &Key) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(b"semel.keyed-body.1");
        // Always as long, so that no payload and key read like another pair.
        hasher.update(self.0.as_bytes());
        hasher.update(key.as_bytes());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hasher.finalize()[..16]);
        Self(Uuid::from_bytes(bytes))
    }

    /// Takes a fingerprint as the store keeps it.
    pub fn from_uuid(uuid: Uuid) -> Self {
        Self(uuid)
    }

    /// The fingerprint as the store keeps it.
    pub fn as_uuid(&self) -> &Uuid {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.simple())
    }
}

/// Adds the whole numbers from 2^53 on, in the order of the payload. A zero byte stands before each:
/// none is in canonical JSON, so that no payload without them reads like one that has some. 2^53 itself
/// is the one that its neighbour is folded into.
fn add_large(payload: &Value, hasher: &mut Sha256) {
    match payload {
        Value::Number(number) => {
            if let Some(text) = large(number) {
                hasher.update([0]);
                hasher.update(text);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| add_large(item, hasher)),
        Value::Object(members) => members.values().for_each(|value| add_large(value, hasher)),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// The text of a whole number from 2^53 on, however it is spelled.
fn large(number: &Number) -> Option<String> {
    if let (true, Some(double)) = (number.is_f64(), number.as_f64()) {
        let is_large = double.fract() == 0.0 && double.abs() >= EXACT_MAX as f64;
        return is_large.then(|| format!("{double:.0}"));
    }
    let magnitude = number.as_i64().map(i64::unsigned_abs);
    let is_large = magnitude.or(number.as_u64())? >= EXACT_MAX;
    is_large.then(|| number.to_string())
}

struct Sink(Sha256);

impl std::io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whole_numbers_that_a_double_folds_together_are_told_apart() {
        let of = |text: &str| Fingerprint::of(&serde_json::from_str(text).unwrap());

        assert_ne!(of("1234567890123456789"), of("1234567890123456788"));
        assert_ne!(of("18446744073709551615"), of("18446744073709551614"));
        assert_ne!(
            of(r#"{"id":-9007199254740993}"#),
            of(r#"{"id":-9007199254740992}"#)
        );
        assert_ne!(
            of("[9007199254740993,9007199254740992,1]"),
            of("[9007199254740992,9007199254740993,1]")
        );
        assert_ne!(of("1234567890123456789"), of("\"1234567890123456789\""));
        assert_eq!(of("100000000000000000"), of("1e17"), "spelling is nothing");
        assert_eq!(
            of(r#"{"b":9007199254740993,"a":1}"#),
            of(r#"{ "a": 1.0, "b": 9007199254740993 }"#)
        );
    }

    #[test]
    fn a_payload_with_its_key_is_another_under_another_key() {
        let key = |text: &str| Key::new(text.as_bytes()).unwrap();
        let (one, other) = (Fingerprint::of(&json!(1)), Fingerprint::of(&json!(2)));

        assert_eq!(one.with_key(&key("a")), one.with_key(&key("a")));
        assert_ne!(one.with_key(&key("a")), one.with_key(&key("b")));
        assert_ne!(one.with_key(&key("a")), other.with_key(&key("a")));
        assert_ne!(one.with_key(&key("a")), one);
    }
}
