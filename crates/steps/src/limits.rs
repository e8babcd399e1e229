//! Limits: how much one destination may be asked, and when it is left alone.
//!
//! Every connection has a budget of its own (S-44: by namespace and name), and so has every host
//! that is called without one (by namespace, host and port), so that a destination that hangs holds
//! back only its own callers. Room is found without waiting (`room.rs`), before anything is written
//! for a call. A call that will soon have its place and its turn in the rate waits for a moment, and
//! only so many wait. Every other call is told when to come back, each at a time of its own
//! (`pace.rs`): a worker's turn is not blocked, the run sleeps.
//!
//! ```text
//! closed ──so many failures in a row──▶ open ──after a while──▶ trial ──answer──▶ closed
//!    ▲                                    ▲                       │
//!    └──────────── an answer              └────── no answer ◀─────┘
//! ```
//!
//! Each process counts for itself. What a connection allows is divided by the number of live servers
//! (`share.rs`); a breaker, and the room of a host without a connection, are each server's own. The
//! times to come back are each server's own as well, as dense as its part of the rate: a run that
//! another server takes then finds that server's room, or is told another time.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use semel_model::{Fault, FaultKind, Outcome, Span, connection};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::destination::Destination;

mod breaker;
mod host;
mod pace;
mod room;
mod share;

use breaker::{Breaker, Health, Pass};
pub(crate) use host::host_of;
pub use pace::Asker;
use room::Places;
pub use room::Room;
use share::Share;

/// How soon a call must have its place and its turn: any other run is put to sleep instead.
pub const ROOM_PATIENCE: Duration = Duration::from_secs(1);

/// How long a call waits for its place and its turn at most, once its intent is written: part of the time in which its
/// request may land.
pub const ROOM_WAIT_MAX: Duration = Duration::from_secs(3);

/// How long a run that found no place sleeps at least.
const BUSY_FOR: Span = Span::from_const_secs(1);

/// How many may wait for room at a destination that has little of it. Elsewhere as many may wait as
/// there is room for.
const WAITING_MIN: usize = 32;

/// The share of the runs in hand that may call one host without a connection, and the least.
const HOST_SHARE: usize = 4;
const HOST_ROOM_MIN: usize = 4;

/// The most destinations that are remembered before idle ones are forgotten.
const REMEMBERED_MAX: usize = 4096;

/// The limits of every destination that this process connects to.
pub struct DestinationLimits {
    lanes: Mutex<HashMap<(i32, Name), Arc<Lane>>>,
    host_room: u32,
    /// How many servers are live, this one included.
    servers: AtomicU32,
}

impl Default for DestinationLimits {
    fn default() -> Self {
        Self::for_capacity(1024)
    }
}

/// What a destination is called.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Name {
    /// A connection, by its name.
    Connection(String),
    /// A host and port that is called without a connection.
    Host(String),
}

impl Name {
    fn as_str(&self) -> &str {
        match self {
            Self::Connection(name) | Self::Host(name) => name,
        }
    }

    /// By how many servers its limits are divided. The room of a host without a connection protects
    /// the runs of one process from each other.
    fn servers(&self, live: u32) -> u32 {
        match self {
            Self::Connection(_) => live,
            Self::Host(_) => 1,
        }
    }
}

/// What one version of one destination may be asked.
struct Lane {
    name: Name,
    version: i64,
    share: Share,
    waiting: AtomicUsize,
    places: Places,
    breaker: Mutex<Breaker>,
}

/// The right to make one exchange with a destination, until it is dropped.
pub struct Permit {
    lane: Arc<Lane>,
    pass: Pass,
    told: bool,
    room: Option<OwnedSemaphorePermit>,
}

impl DestinationLimits {
    /// The limits of a process that has so many runs in hand at once: a host that is called without
    /// a connection gets a quarter of them.
    #[must_use]
    pub fn for_capacity(runs: usize) -> Self {
        let host_room = (runs / HOST_SHARE).max(HOST_ROOM_MIN);
        Self {
            lanes: Mutex::default(),
            host_room: u32::try_from(host_room).unwrap_or(u32::MAX),
            servers: AtomicU32::new(1),
        }
    }

    /// Divides what connections allow by the number of servers that are live.
    pub fn divide_by(&self, servers: usize) {
        let servers = u32::try_from(servers.max(1)).unwrap_or(u32::MAX);
        if self.servers.swap(servers, Ordering::AcqRel) == servers {
            return;
        }
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        for lane in lanes.values() {
            lane.share.divide_by(lane.name.servers(servers));
        }
    }

    /// Finds room at a connection, without waiting. What was found is given back as it is dropped.
    ///
    /// # Errors
    ///
    /// `destination-busy` where there is none, `destination-paused` where it failed too often of
    /// late. Both pass, and say when to come back; nothing was sent.
    pub fn find(&self, to: &Destination, asker: Asker) -> Result<Room, Fault> {
        let name = Name::Connection(to.name.clone());
        let limits = &to.connection.limits;
        Room::find(self.lane(to.namespace_id, name, to.version, limits), asker)
    }

    /// Finds room at a host that is called without a connection.
    ///
    /// # Errors
    ///
    /// As for a connection.
    pub fn find_host(&self, namespace_id: i32, host: String, asker: Asker) -> Result<Room, Fault> {
        let limits = connection::ConnectionLimits {
            concurrency: self.host_room,
            ..connection::ConnectionLimits::default()
        };
        Room::find(self.lane(namespace_id, Name::Host(host), 0, &limits), asker)
    }

    /// The lane of a destination. One that changed gets a new lane, with its new settings and a
    /// closed breaker; a call that still comes with an older version uses the new lane.
    fn lane(
        &self,
        namespace_id: i32,
        name: Name,
        version: i64,
        limits: &connection::ConnectionLimits,
    ) -> Arc<Lane> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (namespace_id, name);
        if let Some(lane) = lanes.get(&key)
            && lane.version >= version
        {
            return lane.clone();
        }
        if lanes.len() >= REMEMBERED_MAX {
            lanes.retain(|_, lane| Arc::strong_count(lane) > 1);
        }
        let servers = key.1.servers(self.servers.load(Ordering::Acquire));
        let lane = Arc::new(Lane::new(key.1.clone(), version, limits, servers));
        lanes.insert(key, lane.clone());
        lane
    }
}

impl Permit {
    /// Tells the destination's breaker what the exchange came to.
    pub fn outcome(mut self, outcome: &Outcome) {
        self.told = true;
        let health = Health::of(outcome);
        self.lane
            .breaker()
            .report(self.pass, health, Instant::now());
    }
}

impl Drop for Permit {
    /// An abandoned exchange says nothing about the destination.
    fn drop(&mut self) {
        if !self.told {
            let now = Instant::now();
            self.lane.breaker().report(self.pass, Health::Unknown, now);
        }
        if let Some(room) = self.room.take() {
            self.lane.share.give_back(room);
        }
    }
}

impl Lane {
    fn new(name: Name, version: i64, limits: &connection::ConnectionLimits, servers: u32) -> Self {
        Self {
            name,
            version,
            share: Share::new(limits, servers),
            waiting: AtomicUsize::new(0),
            places: Places::default(),
            breaker: Mutex::new(Breaker::new(limits)),
        }
    }

    fn breaker(&self) -> std::sync::MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn busy(lane: &Lane, retry_after: Span) -> Fault {
    let name = lane.name.as_str();
    let message = match lane.name {
        Name::Connection(_) => {
            format!("`{name}` is at the limit of its connection (`concurrency`, `per_second`)")
        }
        Name::Host(_) => format!(
            "`{name}` is at the limit of a host without a connection; a connection has its own `concurrency`"
        ),
    };
    Fault {
        kind: FaultKind::HeldBack,
        retry_after: Some(retry_after),
        ..Fault::passing("destination-busy", message)
    }
}

fn paused(lane: &Lane, wait: Duration) -> Fault {
    let name = lane.name.as_str();
    let settings = match lane.name {
        Name::Connection(_) => " (`open_after`, `open_for`)",
        Name::Host(_) => "",
    };
    let message =
        format!("`{name}` failed too often in a row: its circuit breaker is open{settings}");
    let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    Fault {
        kind: FaultKind::HeldBack,
        retry_after: Some(Span::from_millis(wait_ms.max(1))),
        ..Fault::passing("destination-paused", message)
    }
}

#[cfg(test)]
mod tests;
