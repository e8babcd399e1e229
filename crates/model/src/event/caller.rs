//! The caller of a run.

use serde::{Deserialize, Serialize};

use crate::id::{RunId, WaitId};

/// The run that asked for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// That run.
    pub run: RunId,
    /// What it waits for.
    pub wait: WaitId,
}
