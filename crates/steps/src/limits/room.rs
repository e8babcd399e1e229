//! Room at a destination: found without waiting, and entered when the exchange begins.
//!
//! ```text
//! ask ──┬─ room ─▶ intent ─▶ a short wait for place and turn ─▶ the exchange
//!       └─ none ─▶ when to come back: nothing was written for it
//! ```
//!
//! Room that is dropped is given back: a place, a promised turn in the rate, a breaker's trial.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use semel_model::{Fault, Span};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

use super::breaker::{Health, Pass};
use super::pace::{Asker, Line};
use super::{BUSY_FOR, Lane, Permit, ROOM_PATIENCE, ROOM_WAIT_MAX, WAITING_MIN, busy, paused};

/// How far ahead times are given by the time that exchanges take: they may be quicker soon.
const PLACE_LINE_MAX: Duration = Duration::from_secs(60);

/// The least time between two that come back for a place.
const PLACES_APART_MIN: Duration = Duration::from_millis(10);

/// How often places become free, and when those come back who found none.
#[derive(Default)]
pub(super) struct Places {
    /// The time after which the next place became free lately, in microseconds; zero where nobody
    /// had to wait.
    apart_us: AtomicU64,
    line: Mutex<Line>,
}

impl Places {
    fn apart(&self) -> Duration {
        Duration::from_micros(self.apart_us.load(Ordering::Relaxed))
    }

    /// Learns from a caller that waited so long behind so many others. One that waited in vain says
    /// only how long it takes at least.
    fn learn(&self, waited: Duration, ahead: usize, found: bool) {
        let callers = u32::try_from(ahead).unwrap_or(u32::MAX).saturating_add(1);
        let seen = u64::try_from((waited / callers).as_micros()).unwrap_or(u64::MAX);
        let before = self.apart_us.load(Ordering::Relaxed);
        let now = match found {
            true => (before / 4).saturating_mul(3).saturating_add(seen / 4),
            false => before.max(seen),
        };
        self.apart_us.store(now, Ordering::Relaxed);
    }

    /// When a caller comes back, not before `soonest`.
    fn come_back(&self, now: Instant, soonest: Duration) -> Duration {
        let apart = self.apart().max(PLACES_APART_MIN);
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        line.give(now, soonest, apart, PLACE_LINE_MAX)
    }
}

/// Room for one exchange with a destination, until this is dropped.
pub struct Room {
    lane: Arc<Lane>,
    place: Option<OwnedSemaphorePermit>,
    /// How many waited for a place before this one, where it has none yet.
    ahead: Option<usize>,
    /// Whether a turn in the rate is promised.
    promised: bool,
    pass: Option<Pass>,
}

impl Room {
    /// Finds room without waiting.
    pub(super) fn find(lane: Arc<Lane>, asker: Asker) -> Result<Self, Fault> {
        let now = Instant::now();
        let place = lane.share.room.clone().try_acquire_owned().ok();
        let mut room = Self {
            lane,
            place,
            ahead: None,
            promised: false,
            pass: None,
        };
        // No call waits for room at a destination whose breaker is open.
        let pass = room.lane.breaker().enter(now);
        room.pass = Some(pass.map_err(|wait| room.stay_away(asker, wait, now))?);
        if room.place.is_none() {
            room.stand_in_line(asker, now)?;
        }
        if room.lane.share.has_rate() {
            let promised = room.lane.share.promise(asker, now);
            promised.map_err(|wait| busy(&room.lane, span(wait)))?;
            room.promised = true;
        }
        Ok(room)
    }

    /// Joins those who wait for a place, where one is likely to become free in time.
    fn stand_in_line(&mut self, asker: Asker, now: Instant) -> Result<(), Fault> {
        let lane = &self.lane;
        let ahead = lane.waiting.fetch_add(1, Ordering::AcqRel);
        self.ahead = Some(ahead);
        let callers = u32::try_from(ahead).unwrap_or(u32::MAX).saturating_add(1);
        let is_short = ahead < lane.share.concurrency().max(WAITING_MIN);
        // One may always wait: it finds out whether places become free again.
        if ahead == 0 || is_short && lane.places.apart().saturating_mul(callers) <= ROOM_PATIENCE {
            return Ok(());
        }
        let wait = match asker {
            Asker::Accepted => BUSY_FOR.to_duration(),
            Asker::First | Asker::Again => lane.places.come_back(now, BUSY_FOR.to_duration()),
        };
        Err(busy(lane, span(wait)))
    }

    /// The breaker is open: those who come back do not come all at once.
    fn stay_away(&self, asker: Asker, wait: Duration, now: Instant) -> Fault {
        let wait = match asker {
            Asker::Accepted => wait,
            Asker::First | Asker::Again => self.lane.places.come_back(now, wait),
        };
        paused(&self.lane, wait)
    }

    /// Waits a moment for what was promised, and begins the exchange.
    pub(crate) async fn enter(self) -> Result<Permit, Fault> {
        self.enter_within(ROOM_WAIT_MAX).await
    }

    /// The intent is written, so that no part of it may wait beyond the limit.
    pub(super) async fn enter_within(mut self, limit: Duration) -> Result<Permit, Fault> {
        let until = Instant::now() + limit;
        let lane = self.lane.clone();
        self.wait_for_place(until).await?;
        if self.promised {
            // Twice as long as turns are promised ahead: the intent took its time.
            let deadline = until.min(Instant::now() + ROOM_PATIENCE * 2);
            if timeout_at(deadline, lane.share.leave()).await.is_err() {
                return Err(busy(&lane, BUSY_FOR));
            }
        }
        let pass = match self.pass.take() {
            Some(Pass::Trial) => Pass::Trial,
            // The breaker may have opened since.
            Some(Pass::Usual) | None => {
                let pass = lane.breaker().enter(Instant::now());
                pass.map_err(|wait| paused(&lane, wait))?
            }
        };
        let place = self.place.take();
        Ok(Permit {
            lane,
            pass,
            told: false,
            room: place,
        })
    }

    async fn wait_for_place(&mut self, until: Instant) -> Result<(), Fault> {
        let Some(ahead) = self.ahead else {
            return Ok(());
        };
        let begun = Instant::now();
        let room = self.lane.share.room.clone();
        let deadline = until.min(begun + ROOM_PATIENCE);
        let place = timeout_at(deadline, room.acquire_owned()).await;
        let place = place.ok().and_then(Result::ok);
        let places = &self.lane.places;
        places.learn(begun.elapsed(), ahead, place.is_some());
        self.place = place;
        self.ahead = None;
        self.lane.waiting.fetch_sub(1, Ordering::AcqRel);
        match self.place.is_some() {
            true => Ok(()),
            false => Err(busy(&self.lane, BUSY_FOR)),
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if self.promised {
            self.lane.share.end_promise();
        }
        if self.ahead.is_some() {
            self.lane.waiting.fetch_sub(1, Ordering::AcqRel);
        }
        if let Some(pass) = self.pass.take() {
            let now = Instant::now();
            self.lane.breaker().report(pass, Health::Unknown, now);
        }
        if let Some(place) = self.place.take() {
            self.lane.share.give_back(place);
        }
    }
}

/// A wait in whole milliseconds, at least one.
fn span(wait: Duration) -> Span {
    let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    Span::from_millis(millis.max(1))
}
