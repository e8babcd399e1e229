//! Refusals that settle earlier attempts: those that a destination makes after it looked up the
//! key.

use super::Connection;

/// The HTTP statuses with which a destination that honours keys is taken to refuse only after it
/// has looked up the key: payment refused, precondition failed, content refused. What comes before
/// the look-up (authentication, gateways, rate limits, size limits) answers with others.
pub const KEY_REFUSALS: &[u16] = &[402, 412, 422];

impl Connection {
    /// The HTTP statuses with which it refuses only after it has looked up the key.
    #[must_use]
    pub fn final_refusals(&self) -> &[u16] {
        self.final_refusals.as_deref().unwrap_or(KEY_REFUSALS)
    }
}
