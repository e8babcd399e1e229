//! Why a batch was not written.

use tokio_postgres::error::SqlState;

use super::WriteError;

/// How often a batch may be held up by a lock before its items are written one by one.
pub(super) const HELD_UP_MAX: u32 = 2;

/// Why a batch was not written.
pub(super) enum Failed {
    /// The database refuses it.
    Refused(String),
    /// It waits for a lock that another session keeps.
    HeldUp(String),
    /// The database does not answer.
    Unavailable(String),
}

impl From<Failed> for WriteError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Refused(words) => Self::Refused(words),
            Failed::HeldUp(words) | Failed::Unavailable(words) => Self::Unavailable(words),
        }
    }
}

/// Whether a statement waited for a lock, or took, too long.
pub(super) fn is_held_up(error: &tokio_postgres::Error) -> bool {
    let code = error.code();
    code == Some(&SqlState::LOCK_NOT_AVAILABLE) || code == Some(&SqlState::QUERY_CANCELED)
}
