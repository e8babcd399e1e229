//! Limits: how much one destination may be asked, and when it is left alone.
//!
//! Every connection has a budget of its own (S-44: by namespace and name), so that a destination
//! that hangs holds back nobody but those who call it. Whoever finds no room waits for a moment
//! only: a worker's turn is not held hostage, the run sleeps and comes back.
//!
//! ```text
//! closed ──so many failures in a row──▶ open ──after a while──▶ trial ──answer──▶ closed
//!    ▲                                    ▲                       │
//!    └──────────── an answer              └────── no answer ◀─────┘
//! ```
//!
//! Each process counts for itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use semel_model::{Fault, FaultKind, Outcome, Span, connection};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::destination::Destination;

mod breaker;

use breaker::{Breaker, Health, Pass};

/// How long a call waits for room before its run is put to sleep instead.
const ROOM_PATIENCE: Duration = Duration::from_secs(1);

/// What a run that found no room is told to sleep.
const BUSY_FOR: Span = Span::from_const_secs(1);

/// The most destinations that are remembered before idle ones are forgotten.
const REMEMBERED_MAX: usize = 4096;

/// The limits of every destination that this process speaks to.
#[derive(Default)]
pub struct Limits {
    lanes: Mutex<HashMap<(i32, String), Arc<Lane>>>,
}

/// What one version of one destination may be asked.
struct Lane {
    name: String,
    version: i64,
    room: Arc<Semaphore>,
    rate: Option<DefaultDirectRateLimiter>,
    breaker: Mutex<Breaker>,
}

/// The right to make one exchange with a destination, until it is dropped.
pub struct Permit {
    lane: Arc<Lane>,
    pass: Pass,
    told: bool,
    _room: OwnedSemaphorePermit,
}

impl Limits {
    /// Waits a moment for room at a destination.
    ///
    /// # Errors
    ///
    /// `destination-busy` where there is none, `destination-paused` where it failed too often of
    /// late. Both pass, and say when to come back; nothing was sent.
    pub async fn enter(&self, to: &Destination) -> Result<Permit, Fault> {
        let lane = self.lane(to);
        let deadline = Instant::now() + ROOM_PATIENCE;
        // Nobody waits for room at a destination that is not spoken to.
        lane.breaker()
            .look(Instant::now())
            .map_err(|wait| paused(&lane, wait))?;
        let room = tokio::time::timeout_at(deadline, lane.room.clone().acquire_owned()).await;
        let Ok(Ok(room)) = room else {
            return Err(busy(&lane, BUSY_FOR));
        };
        lane.keep_pace(deadline).await?;
        let pass = lane.breaker().enter(Instant::now());
        let pass = pass.map_err(|wait| paused(&lane, wait))?;
        Ok(Permit {
            lane,
            pass,
            told: false,
            _room: room,
        })
    }

    /// The lane of a destination. One that changed gets a new lane, with its new settings and
    /// nothing held against it; whoever still comes with an older version goes by the new one.
    fn lane(&self, to: &Destination) -> Arc<Lane> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (to.namespace_id, to.name.clone());
        if let Some(lane) = lanes.get(&key)
            && lane.version >= to.version
        {
            return lane.clone();
        }
        if lanes.len() >= REMEMBERED_MAX {
            lanes.retain(|_, lane| Arc::strong_count(lane) > 1);
        }
        let lane = Arc::new(Lane::new(to));
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
    /// An exchange that was given up says nothing about the destination.
    fn drop(&mut self) {
        if !self.told {
            let now = Instant::now();
            self.lane.breaker().report(self.pass, Health::Unknown, now);
        }
    }
}

impl Lane {
    fn new(to: &Destination) -> Self {
        let limits = &to.connection.limits;
        let at_once = usize::try_from(limits.at_once.max(1)).unwrap_or(usize::MAX);
        Self {
            name: to.name.clone(),
            version: to.version,
            room: Arc::new(Semaphore::new(at_once.min(Semaphore::MAX_PERMITS))),
            rate: quota(limits).map(RateLimiter::direct),
            breaker: Mutex::new(Breaker::new(limits)),
        }
    }

    fn breaker(&self) -> std::sync::MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for this exchange's turn in the rate, not past the deadline.
    async fn keep_pace(&self, deadline: Instant) -> Result<(), Fault> {
        let Some(rate) = &self.rate else {
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

/// The rate, evenly spread: no second sees more than a tenth beyond it.
fn quota(limits: &connection::Limits) -> Option<Quota> {
    let per_second = limits.per_second?.max(1);
    let burst = std::num::NonZeroU32::new((per_second / 10).max(1))?;
    let quota = Quota::with_period(Duration::from_secs(1) / per_second)?;
    Some(quota.allow_burst(burst))
}

fn busy(lane: &Lane, retry_after: Span) -> Fault {
    let message = format!(
        "as much is under way at `{}` as its connection allows (`at_once`, `per_second`)",
        lane.name
    );
    Fault {
        kind: FaultKind::HeldBack,
        retry_after: Some(retry_after),
        ..Fault::passing("destination-busy", message)
    }
}

fn paused(lane: &Lane, wait: Duration) -> Fault {
    let message = format!(
        "`{}` failed too often in a row and is left alone for a while (`break_after`, `break_for`)",
        lane.name
    );
    let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    Fault {
        kind: FaultKind::HeldBack,
        retry_after: Some(Span::from_millis(wait_ms.max(1))),
        ..Fault::passing("destination-paused", message)
    }
}

#[cfg(test)]
mod tests;
