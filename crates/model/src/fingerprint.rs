//! Fingerprints: whether two payloads are the same work.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::key::Key;

/// Sixteen bytes of SHA-256 over a payload's canonical form (RFC 8785).
///
/// Spelling, member order and number format do not enter into it; [`crate::json::parse_strict`]
/// has refused what canonical form would fold together.
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
    fn a_payload_with_its_key_is_another_under_another_key() {
        let key = |text: &str| Key::new(text.as_bytes()).unwrap();
        let (one, other) = (Fingerprint::of(&json!(1)), Fingerprint::of(&json!(2)));

        assert_eq!(one.with_key(&key("a")), one.with_key(&key("a")));
        assert_ne!(one.with_key(&key("a")), one.with_key(&key("b")));
        assert_ne!(one.with_key(&key("a")), other.with_key(&key("a")));
        assert_ne!(one.with_key(&key("a")), one);
    }
}
