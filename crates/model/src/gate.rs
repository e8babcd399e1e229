//! Gates: limit how many runs of one object are active at a time, and order them.
//!
//! ```text
//! arrives ──▶ Debouncing ──▶ Waiting ──▶ Granted ──▶ Running ──▶ left
//!    │             │            │           │
//!    │             └────────────┴───────────┴──▶ Dropped ──▶ left
//!    └──▶ Joining ──▶ left
//! ```
//!
//! An entry is a run's place at a gate. A *granted* run is admitted but not woken yet; it counts as
//! running. A *debouncing* run waits until its object is quiet, a *joining* run for the end of the
//! run that it joined. A *dropped* run gave way to a newer run and has to end. [`AdmissionState`]
//! makes the decisions and is pure; the worker that stores them holds a lock on the gate meanwhile.

mod admission;

pub use admission::{AdmissionState, EntryRequest, FreeStarts, GateOperation};

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::id::{GateId, RunId, digest};
use crate::name::{FlowName, NamespaceName};
use crate::span::Span;

/// Which of a flow's gates. Runs pass them in this order, so that no two wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateKind {
    /// Deliveries about one object, the newest last.
    Order,
    /// One run of an object at a time.
    Overlap,
    /// A maximum number of active runs, and a maximum rate of starts.
    Limit,
}

impl GateKind {
    /// The gate's name, as authors write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Order => "order",
            Self::Overlap => "overlap",
            Self::Limit => "limit",
        }
    }
}

impl GateId {
    /// Derives the gate of an object.
    pub fn derive(
        namespace: &NamespaceName,
        flow: &FlowName,
        kind: GateKind,
        object: &str,
    ) -> Self {
        let parts = [
            namespace.as_str().as_bytes(),
            flow.as_str().as_bytes(),
            kind.as_str().as_bytes(),
            object.as_bytes(),
        ];
        Self::from_uuid(Uuid::from_bytes(digest("semel.gate.1", &parts)))
    }
}

impl fmt::Display for GateKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What happens to a run that comes while another one is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GatePolicy {
    /// It waits in line.
    Queue,
    /// It ends at once.
    Skip,
    /// It ends as the other does.
    Join,
    /// The other is asked to end, and it waits for that.
    Replace,
}

/// How often runs may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rate {
    /// The most starts.
    pub most: u32,
    /// Within any stretch of this length.
    pub per: Span,
}

/// The rules of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateRules {
    /// What happens to a run that comes while another one is running.
    pub policy: GatePolicy,
    /// The most runs at a time.
    pub concurrency: Option<u32>,
    /// How often runs may be admitted.
    pub rate: Option<Rate>,
    /// How long an object must be quiet before its newest run is admitted.
    pub debounce: Option<Span>,
}

impl GateRules {
    /// One at a time.
    pub const fn one_at_a_time(policy: GatePolicy) -> Self {
        Self {
            policy,
            concurrency: Some(1),
            rate: None,
            debounce: None,
        }
    }
}

/// Where a run stands at a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatePlace {
    /// In line.
    Waiting,
    /// Until its object has been quiet for long enough.
    Debouncing,
    /// Admitted, and not woken yet.
    Granted,
    /// Admitted and woken.
    Running,
    /// Until the run that it joined has ended.
    Joining,
    /// Gave way to a newer one.
    Dropped,
}

impl GatePlace {
    const ALL: [Self; 6] = [
        Self::Waiting,
        Self::Debouncing,
        Self::Granted,
        Self::Running,
        Self::Joining,
        Self::Dropped,
    ];

    /// The place's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Debouncing => "debouncing",
            Self::Granted => "granted",
            Self::Running => "running",
            Self::Joining => "joining",
            Self::Dropped => "dropped",
        }
    }

    /// Whether the run has not begun, and could give way.
    const fn is_outside(self) -> bool {
        match self {
            Self::Waiting | Self::Debouncing | Self::Granted => true,
            Self::Running | Self::Joining | Self::Dropped => false,
        }
    }
}

/// The text names no place.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a place at a gate")]
pub struct GatePlaceError;

impl FromStr for GatePlace {
    type Err = GatePlaceError;

    fn from_str(text: &str) -> Result<Self, GatePlaceError> {
        Self::ALL
            .into_iter()
            .find(|place| place.as_str() == text)
            .ok_or(GatePlaceError)
    }
}

/// A run's place at a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateEntry {
    /// The run.
    pub run: RunId,
    /// Where it stands.
    pub place: GatePlace,
    /// When its delivery was accepted, which decides its place in line.
    pub accepted_at: Timestamp,
    /// The row of its journal after which it came.
    pub after_seq: i32,
    /// The run that it joined, that it gave way to, or that wants its place.
    pub related_run: Option<RunId>,
    /// When it may start, where that is later.
    pub ready_at: Option<Timestamp>,
    /// Whether it has to be woken.
    pub needs_wake_up: bool,
}

impl GateEntry {
    fn is_before(&self, other: &Self) -> bool {
        (self.accepted_at, self.run) < (other.accepted_at, other.run)
    }
}

/// A gate's decision about a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateVerdict {
    /// It is admitted.
    In,
    /// It waits.
    Wait {
        /// A run that is running, where the gate is full.
        behind: Option<RunId>,
        /// Until then, where it waits for a time; otherwise until it is granted its place.
        until: Option<Timestamp>,
    },
    /// Another one is running, and this one has to end.
    Skip {
        /// The other.
        by: RunId,
    },
    /// It ends as another does.
    Join {
        /// The other.
        run: RunId,
        /// Whether that has ended.
        ended: bool,
    },
    /// It gave way to a newer one.
    Dropped {
        /// The newer one.
        by: RunId,
    },
}

/// A run to wake, so that it looks at the gate again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeUp {
    /// The run.
    pub run: RunId,
    /// Not before then.
    pub at: Timestamp,
}
