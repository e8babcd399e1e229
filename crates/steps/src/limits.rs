//! Limits: how much one destination may be asked, and when it is left alone.
//!
//! Every connection has a budget of its own (S-44: by namespace and name), and so has every host
//! that is called without one (by namespace, host and port), so that a destination that hangs holds
//! back only its own callers. A call that finds no room waits for a moment only, and only so many
//! wait: a worker's turn is not blocked, the run sleeps and comes back.
//!
//! ```text
//! closed ──so many failures in a row──▶ open ──after a while──▶ trial ──answer──▶ closed
//!    ▲                                    ▲                       │
//!    └──────────── an answer              └────── no answer ◀─────┘
//! ```
//!
//! Each process counts for itself. What a connection allows is divided by the number of live servers
//! (`share.rs`); a breaker, and the room of a host without a connection, are each server's own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use governor::Quota;
use governor::clock::{Clock, DefaultClock};
use semel_model::{Fault, FaultKind, Outcome, Span, connection};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::destination::Destination;

mod breaker;
mod host;
mod share;

use breaker::{Breaker, Health, Pass};
pub(crate) use host::host_of;
use share::Share;

/// How long a call waits for room before its run is put to sleep instead.
const ROOM_PATIENCE: Duration = Duration::from_secs(1);

/// How long a run that found no room sleeps.
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
    breaker: Mutex<Breaker>,
}

/// One that waits for room, until this is dropped.
struct InLine<'a>(&'a AtomicUsize);

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
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

    /// Waits a moment for room at a connection.
    ///
    /// # Errors
    ///
    /// `destination-busy` where there is none, `destination-paused` where it failed too often of
    /// late. Both pass, and say when to come back; nothing was sent.
    pub async fn enter(&self, to: &Destination) -> Result<Permit, Fault> {
        let name = Name::Connection(to.name.clone());
        let limits = &to.connection.limits;
        enter(self.lane(to.namespace_id, name, to.version, limits)).await
    }

    /// Waits a moment for room at a host that is called without a connection.
    ///
    /// # Errors
    ///
    /// As for a connection.
    pub async fn enter_host(&self, namespace_id: i32, host: String) -> Result<Permit, Fault> {
        let limits = connection::ConnectionLimits {
            concurrency: self.host_room,
            ..connection::ConnectionLimits::default()
        };
        enter(self.lane(namespace_id, Name::Host(host), 0, &limits)).await
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

async fn enter(lane: Arc<Lane>) -> Result<Permit, Fault> {
    let mut now = Instant::now();
    let deadline = now + ROOM_PATIENCE;
    let room = match lane.share.room.clone().try_acquire_owned() {
        Ok(room) => room,
        Err(_) => {
            // No call waits for room at a destination whose breaker is open.
            let looked = lane.breaker().look(now);
            looked.map_err(|wait| paused(&lane, wait))?;
            let room = lane.wait_for_room(deadline).await?;
            now = Instant::now();
            room
        }
    };
    if lane.share.has_rate() {
        let looked = lane.breaker().look(now);
        looked.map_err(|wait| paused(&lane, wait))?;
        lane.keep_pace(deadline).await?;
        now = Instant::now();
    }
    let pass = lane.breaker().enter(now);
    let pass = pass.map_err(|wait| paused(&lane, wait))?;
    Ok(Permit {
        lane,
        pass,
        told: false,
        room: Some(room),
    })
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
            breaker: Mutex::new(Breaker::new(limits)),
        }
    }

    /// Waits for room, not past the deadline, and not behind too many others.
    async fn wait_for_room(&self, deadline: Instant) -> Result<OwnedSemaphorePermit, Fault> {
        let ahead = self.waiting.fetch_add(1, Ordering::AcqRel);
        let _in_line = InLine(&self.waiting);
        if ahead >= self.share.concurrency().max(WAITING_MIN) {
            return Err(busy(self, BUSY_FOR));
        }
        let room = tokio::time::timeout_at(deadline, self.share.room.clone().acquire_owned()).await;
        match room {
            Ok(Ok(room)) => Ok(room),
            Ok(Err(_)) | Err(_) => Err(busy(self, BUSY_FOR)),
        }
    }

    fn breaker(&self) -> std::sync::MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for this exchange's turn in the rate, not past the deadline.
    async fn keep_pace(&self, deadline: Instant) -> Result<(), Fault> {
        let Some(rate) = self.share.rate() else {
            return Ok(());
        };
        let clock = DefaultClock::default();
        while let Err(not_yet) = rate.check() {
            let wait = not_yet.wait_time_from(clock.now());
            if Instant::now() + wait > deadline {
                let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
                return Err(busy(self, Span::from_millis(wait_ms).max(BUSY_FOR)));
            }
            tokio::time::sleep(wait).await;
        }
        Ok(())
    }
}

/// A server's part of the rate, evenly spread: no second sees more than a tenth beyond it.
fn quota(limits: &connection::ConnectionLimits, servers: u32) -> Option<Quota> {
    let (per_second, servers) = (limits.per_second?.max(1), servers.max(1));
    let burst = std::num::NonZeroU32::new((per_second / servers / 10).max(1))?;
    let quota = Quota::with_period(Duration::from_secs(1) * servers / per_second)?;
    Some(quota.allow_burst(burst))
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
