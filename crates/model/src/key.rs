//! Keys: the stable name of one intent.
//!
//! Keys that Semel makes itself, for an instant of a schedule, a call or an event, live in spaces of
//! their own: no sender can bring a key that meets one of them.

use std::fmt;

/// The most bytes that a key may have.
pub const KEY_BYTES_MAX: usize = 4096;

/// The name that a sender gives to "the same thing". Any bytes are a key, but not none.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Box<[u8]>);

/// Who names a key. The same text in two spaces is two keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeySpace {
    /// A sender or an author: webhooks, programs, people, and events whose trigger has a `key`.
    Given,
    /// A schedule, for an instant.
    Schedule,
    /// A run that calls a flow, for its step.
    Call,
    /// An event, by its own identity.
    Event,
}

impl KeySpace {
    /// Every space, in the order in which a key is looked for.
    pub const ALL: [Self; 4] = [Self::Given, Self::Schedule, Self::Call, Self::Event];

    /// The space's name, which enters into identities.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::Schedule => "schedule",
            Self::Call => "call",
            Self::Event => "event",
        }
    }
}

/// Why some bytes are no key.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// An empty key would make every delivery without one the same.
    #[error("the key is empty")]
    Empty,
    /// Longer than [`KEY_BYTES_MAX`].
    #[error("the key has {bytes} bytes, more than {KEY_BYTES_MAX}")]
    TooLong {
        /// How many bytes it has.
        bytes: usize,
    },
}

impl Key {
    /// Takes bytes as a key, just as they are: no trimming, no case folding.
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Result<Self, KeyError> {
        let bytes = bytes.into();
        match bytes.len() {
            0 => Err(KeyError::Empty),
            1..=KEY_BYTES_MAX => Ok(Self(bytes)),
            bytes => Err(KeyError::TooLong { bytes }),
        }
    }

    /// The key's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The key as text that people read; bytes that are not UTF-8 are shown as `\xNN`.
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(self.0.len());
        for chunk in self.0.utf8_chunks() {
            text.push_str(chunk.valid());
            for byte in chunk.invalid() {
                text.push_str(&format!("\\x{byte:02x}"));
            }
        }
        text
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.text())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}
