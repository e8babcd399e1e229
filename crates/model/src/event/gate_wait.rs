//! A run that waits at a gate.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::gate::GateKind;
use crate::id::{GateId, RunId};

/// The run waits at a gate before its first step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateWait {
    /// Which of the flow's gates.
    pub gate: GateKind,
    /// The gate itself.
    pub id: GateId,
    /// A run that held the gate then, where the gate was full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<RunId>,
    /// Until then at least, where it waits only for a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}
