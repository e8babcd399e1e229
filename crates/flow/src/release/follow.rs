//! Where a run goes from one step to the next.
//!
//! The steps of a flow are one row, those inside of others included. A step that holds others names
//! the place in the row where they begin; each of them knows what comes after it.

use serde::Serialize;

/// What comes after a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Follow {
    /// The next one in the row.
    #[default]
    Next,
    /// The one at this place.
    At(usize),
    /// Nothing: the list that it is in is over.
    End,
}

impl Follow {
    pub(super) fn is_next(&self) -> bool {
        *self == Self::Next
    }
}
