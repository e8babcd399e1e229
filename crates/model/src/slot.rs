//! Slots: the 4,096 hash ranges that keys fall into.
//!
//! A slot belongs to one cell, and everything a key touches lives there. Every derived identity
//! carries its slot in its first twelve bits, so that a request finds its cell without a look-up.

use std::fmt;

/// How many slots there are. It never changes: cells are added by moving slots.
pub const SLOT_COUNT: u16 = 4096;

/// One of the 4,096 hash ranges of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u16);

impl Slot {
    /// The slot that sixteen digest bytes fall into: their first twelve bits.
    pub fn of(bytes: &[u8; 16]) -> Self {
        Self(u16::from_be_bytes([bytes[0], bytes[1]]) >> 4)
    }

    /// The slot's number, below [`SLOT_COUNT`].
    pub fn number(self) -> u16 {
        self.0
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
