//! The time by which deadlines are moved.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What the run waits for stood still meanwhile, because an operator had paused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deferral {
    /// From when on.
    pub from: Timestamp,
    /// Until when.
    pub until: Timestamp,
}
