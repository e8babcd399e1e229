//! What probes see.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::outcome::Fault;

/// What a probe saw when it did not find the effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "seen", rename_all = "snake_case")]
pub enum ProbeFinding {
    /// The destination answered, and the effect is not there.
    Absent,
    /// The destination answered, and the effect is not there yet: a request in flight may still
    /// arrive.
    AbsentSoFar {
        /// From when on *absent* is believed.
        absent_from: Timestamp,
        /// When it asks again.
        next_at: Timestamp,
    },
    /// The probe itself failed.
    Unclear {
        /// Why.
        fault: Fault,
        /// When it asks again; never, when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_at: Option<Timestamp>,
    },
}
