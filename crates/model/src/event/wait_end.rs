//! How waits end.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How a wait ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum WaitEnd {
    /// Its time came.
    Elapsed,
    /// No callback came in time.
    TimedOut,
    /// A callback came, with this payload.
    Answered {
        /// What it brought.
        payload: Value,
    },
}
