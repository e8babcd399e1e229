//! Gates: what the runs of one object pass one at a time, or so many at a time.
//!
//! ```text
//!                    ┌─────────────▶ Inside ──▶ gone
//!                    │                 ▲
//! arrives ──▶ Resting ──▶ Waiting ──▶ Called
//!    │            │          │          │
//!    │            └──────────┴──────────┴──▶ Dropped ──▶ gone
//!    └──▶ Joining ──▶ gone
//! ```
//!
//! A ticket is a run's place at a gate. *Called* is let in and not yet told; it counts as inside.
//! *Resting* waits for its object to be quiet, *joining* for the end of the run that it joined.
//! *Dropped* gave way to a newer run, and is to end. What a gate decides is decided by its
//! [`AdmissionState`], which is pure; whoever writes it down holds the gate meanwhile.

mod admission;

pub use admission::{AdmissionState, Arrival, Shares, Visit};

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::RunId;
use crate::span::Span;

/// Which of a flow's gates. Runs pass them in this order, so that no two wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Deliveries about one object, the newest last.
    Order,
    /// One run of an object at a time.
    Overlap,
    /// So many runs, so fast.
    Limit,
}

impl Kind {
    /// The gate's name, as authors write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Order => "order",
            Self::Overlap => "overlap",
            Self::Limit => "limit",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What becomes of a run that comes while another one is inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
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

/// What a gate goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// What becomes of a run that comes while another one is inside.
    pub policy: Policy,
    /// The most runs inside.
    pub concurrency: Option<u32>,
    /// How often runs may be let in.
    pub rate: Option<Rate>,
    /// How long an object must be quiet before its newest run is let in.
    pub debounce: Option<Span>,
}

impl Rules {
    /// One at a time.
    pub const fn one_at_a_time(policy: Policy) -> Self {
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
pub enum Place {
    /// In line.
    Waiting,
    /// Until its object has been quiet for long enough.
    Debouncing,
    /// Let in, and not yet told.
    Granted,
    /// Let in.
    Running,
    /// Until the run that it joined has ended.
    Joining,
    /// Gave way to a newer one.
    Dropped,
}

impl Place {
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
pub struct PlaceError;

impl FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        Self::ALL
            .into_iter()
            .find(|place| place.as_str() == text)
            .ok_or(PlaceError)
    }
}

/// A run's place at a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateEntry {
    /// The run.
    pub run: RunId,
    /// Where it stands.
    pub place: Place,
    /// When its delivery was accepted: who was first is first.
    pub accepted_at: Timestamp,
    /// The row of its journal after which it came.
    pub since: i32,
    /// Whom it joined, whom it gave way to, or who wants its place.
    pub behind: Option<RunId>,
    /// When it may come, where that is later.
    pub ready_at: Option<Timestamp>,
    /// Whether it has to be told something.
    pub summoned: bool,
}

impl GateEntry {
    fn is_before(&self, other: &Self) -> bool {
        (self.accepted_at, self.run) < (other.accepted_at, other.run)
    }
}

/// What a gate says to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is let in.
    In,
    /// It waits.
    Wait {
        /// A run that is inside, where the gate is full.
        behind: Option<RunId>,
        /// Until then, where time is waited for; otherwise until it is called.
        until: Option<Timestamp>,
    },
    /// Another one is inside, and this one shall end.
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

/// Somebody who has to be told to look at the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeUp {
    /// The run.
    pub run: RunId,
    /// Not before then.
    pub at: Timestamp,
}
