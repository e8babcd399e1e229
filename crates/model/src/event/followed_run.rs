//! What a run follows that is not the first of its key.

use serde::{Deserialize, Serialize};

use super::is_zero;
use crate::id::RunId;

/// The run before a run of the same key, and what of it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FollowedRun {
    /// The first run of the key.
    pub first: RunId,
    /// The run before this one.
    pub last: RunId,
    /// How many times the key came back as a new intent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub intent: u32,
    /// The steps whose done effects are reused although their requests differ now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepts: Vec<String>,
    /// The steps that change nothing and keep the results that the run before has of them: those
    /// before the place that an operator replays from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
}
