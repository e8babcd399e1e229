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

    /// The slot of something that is named by the SHA-256 of its content.
    pub fn of_digest(digest: &[u8; 32]) -> Self {
        Self(u16::from_be_bytes([digest[0], digest[1]]) >> 4)
    }

    /// The slot's number, below [`SLOT_COUNT`].
    pub fn number(self) -> u16 {
        self.0
    }
}

/// What lives in one slot: an identity that carries its slot, or something that has such an identity.
pub trait InSlot {
    /// The slot.
    fn slot(&self) -> Slot;
}

impl InSlot for Slot {
    fn slot(&self) -> Slot {
        *self
    }
}

impl<T: InSlot + ?Sized> InSlot for &T {
    fn slot(&self) -> Slot {
        T::slot(self)
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
