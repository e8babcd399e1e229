//! The lease: a process's dated right to move runs.
//!
//! One session per process is renewed, not the runs that it holds. Expiry is judged by the database
//! alone. The process itself stops sending well before: two thirds of the lease after the *start*
//! of the last renewal that succeeded, measured with a clock that suspend does not stop.
//!
//! A session that expired is never revived. The process begins another, with connections of its
//! own; what still runs under the old one can neither send nor write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use semel_model::{RunId, SessionId, Span};
use semel_steps::{Executors, Reach, SendGate};
use semel_store::queue::{self, Catch, Taken, Taker};
use semel_store::{Cell, ReadError, sessions};
use tokio::time::Instant;

use crate::boottime::Boottime;
use crate::engine::{Engine, Inner, StartError};
use crate::holdings::Holding;
use crate::turn::Turn;

/// One session and what belongs to it.
pub struct Tenure {
    /// The session.
    pub session: SessionId,
    /// Makes calls for as long as the session's gate is open.
    pub executors: Executors,
    gate: Arc<Gate>,
}

/// Open while the lease certainly holds.
#[derive(Debug)]
struct Gate {
    open_until: AtomicU64,
    lost: AtomicBool,
}

impl SendGate for Gate {
    fn is_open(&self) -> bool {
        !self.lost.load(Ordering::Acquire)
            && Boottime::now().as_millis() < self.open_until.load(Ordering::Acquire)
    }
}

impl Gate {
    fn renewed(&self, begun: Boottime, lease: Span) {
        let until = begun.as_millis() + lease.as_millis() * 2 / 3;
        self.open_until.store(until, Ordering::Release);
    }
}

impl Tenure {
    /// Begins a session.
    pub async fn begin(
        cell: &Cell,
        process: &str,
        lease: Span,
        reach: &Reach,
    ) -> Result<Self, StartError> {
        let begun = Boottime::now();
        let session = SessionId::generate();
        sessions::open(cell, session, process, lease).await?;
        let gate = Arc::new(Gate {
            open_until: AtomicU64::new(0),
            lost: AtomicBool::new(false),
        });
        gate.renewed(begun, lease);
        let executors = Executors::new(gate.clone(), reach)?;
        Ok(Self {
            session,
            executors,
            gate,
        })
    }

    /// Whether the lease certainly holds.
    pub fn is_live(&self) -> bool {
        self.gate.is_open()
    }

    async fn renew(&self, inner: &Inner) -> Result<bool, ReadError> {
        let begun = Boottime::now();
        let lease = inner.options.lease;
        match sessions::renew(&inner.cell, self.session, lease).await? {
            Some(now) => {
                inner.clock.set(now);
                self.gate.renewed(begun, lease);
                inner.holdings.ask();
                Ok(true)
            }
            None => {
                self.gate.lost.store(true, Ordering::Release);
                Ok(false)
            }
        }
    }
}

/// Renews the session for as long as the process lives, and begins another when it is lost.
pub async fn keep_renewing(inner: Arc<Inner>) {
    let every = Duration::from_millis((inner.options.lease.as_millis() / 3).max(20));
    let mut pause = every;
    loop {
        tokio::time::sleep(pause).await;
        let tenure = inner.tenure();
        pause = match tenure.renew(&inner).await {
            Ok(true) => every,
            Ok(false) => {
                tracing::warn!(session.id = %tenure.session, "the lease was lost; beginning anew");
                begin_anew(&inner).await;
                every
            }
            Err(error) => {
                tracing::warn!(%error, "the lease could not be renewed");
                every.min(Duration::from_millis(200))
            }
        };
    }
}

async fn begin_anew(inner: &Inner) {
    loop {
        let options = &inner.options;
        let begun = Tenure::begin(&inner.cell, &options.process, options.lease, &inner.reach).await;
        match begun {
            Ok(tenure) => {
                inner.set_tenure(Arc::new(tenure));
                inner.wake.notify_one();
                return;
            }
            Err(error) => {
                tracing::warn!(%error, "a new session could not be begun");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
}

/// Takes runs that are due, in batches, for as long as there is room for them.
pub async fn keep_taking(inner: Arc<Inner>) {
    let mut taker = Taker::new(&inner.cell);
    let mut look_for_suspects = Instant::now();
    while !inner.stop.is_cancelled() {
        let room = inner.room.available_permits();
        let tenure = inner.tenure();
        let pause = if room == 0 || !tenure.is_live() {
            POLL_EVERY
        } else {
            if Instant::now() >= look_for_suspects && !take_suspect(&inner, &mut taker).await {
                look_for_suspects = Instant::now() + SUSPECTS_EVERY;
            }
            match take_batch(&inner, &mut taker, &tenure, room).await {
                Ok((catch, holdings)) => {
                    inner.clock.set(catch.now);
                    let full = !catch.taken.is_empty();
                    for (taken, holding) in catch.taken.into_iter().zip(holdings) {
                        inner.metrics.taken.add_one();
                        inner.clone().go_on(taken, tenure.clone(), None).await;
                        // The turn has entered the run by itself.
                        drop(holding);
                    }
                    if full {
                        Duration::ZERO
                    } else {
                        catch.next_due.unwrap_or(POLL_EVERY)
                    }
                }
                Err(error) => {
                    tracing::warn!(error, "runs could not be taken");
                    taker.recover_link().await;
                    inner.holdings.ask();
                    POLL_EVERY / 10
                }
            }
        };
        tokio::select! {
            () = inner.wake.notified() => {}
            () = tokio::time::sleep(jittered(pause.min(POLL_EVERY))) => {}
            () = inner.stop.cancelled() => {}
        }
    }
}

/// Takes one run that was taken before without progress, unless this process holds one already.
async fn take_suspect(inner: &Arc<Inner>, taker: &mut Taker) -> bool {
    let Some(alone) = inner.stuck.alone() else {
        return false;
    };
    let tenure = inner.tenure();
    let no_comparison = inner.holdings.taking().await;
    match within_patience(taker.take_suspect(tenure.session)).await {
        Ok(Some(taken)) => {
            let _holding = inner.holdings.carry(tenure.session, taken.run);
            drop(no_comparison);
            inner.metrics.taken.add_one();
            inner.clone().go_on(taken, tenure, Some(alone)).await;
            true
        }
        Ok(None) => false,
        Err(error) => {
            drop(no_comparison);
            tracing::warn!(error, "a run without progress could not be taken");
            taker.recover_link().await;
            inner.holdings.ask();
            false
        }
    }
}

/// How often a process looks for runs that were taken before without progress.
const SUSPECTS_EVERY: Duration = Duration::from_millis(200);

/// How long a take and what is loaded with it may stay unanswered. The server's own limit is
/// shorter, so this is a connection that is dead without having said so.
const TAKE_PATIENCE: Duration = Duration::from_secs(20);

/// Takes a batch and enters its runs, while the queue is not compared with what is carried.
async fn take_batch(
    inner: &Inner,
    taker: &mut Taker,
    tenure: &Tenure,
    room: usize,
) -> Result<(Catch, Vec<Holding>), String> {
    let counts = inner.stuck.alone().is_some();
    let _no_comparison = inner.holdings.taking().await;
    let mut catch = within_patience(taker.take(tenure.session, room, counts)).await?;
    if catch.taken.is_empty() && inner.catalogue.has_flows_that_give_way() {
        // Runs that let others go first, now that there are none.
        let early = taker.take_early(tenure.session, room, HEAD_START_SECS_MAX);
        catch.taken = within_patience(early).await?;
    }
    let enter = |taken: &Taken| inner.holdings.carry(tenure.session, taken.run);
    let holdings = catch.taken.iter().map(enter).collect();
    Ok((catch, holdings))
}

async fn within_patience<T, E: std::fmt::Display>(
    taking: impl Future<Output = Result<T, E>>,
) -> Result<T, String> {
    match tokio::time::timeout(TAKE_PATIENCE, taking).await {
        Ok(taken) => taken.map_err(|error| error.to_string()),
        Err(_) => Err("no answer in time".to_owned()),
    }
}

/// How many seconds sooner or later than others a run is due that waits for room to begin, for each
/// step of its flow's priority. Whoever waits for longer than that goes first.
const HEAD_START_SECS: f64 = 10.0;

/// The most that any priority gives.
const HEAD_START_SECS_MAX: f64 = 10.0 * HEAD_START_SECS;

/// Moves a run that nobody had room for among those that are due, as its flow's priority says.
pub(crate) async fn give_head_start(inner: &Inner, run: RunId, priority: i8) {
    let secs = f64::from(priority) * HEAD_START_SECS;
    if let Err(error) = queue::give_head_start(&inner.cell, run, secs).await {
        tracing::debug!(%error, run.id = %run, "a run begins without its priority");
    }
}

/// Has the taker look again where a run is due before it would look by itself.
pub(crate) fn expect(inner: &Inner, due_at: Timestamp) {
    if due_at < inner.clock.now() + POLL_EVERY {
        inner.wake.notify_one();
    }
}

/// How long a process sleeps at most before it looks for runs that are due.
const POLL_EVERY: Duration = Duration::from_secs(1);

/// Spread a little, so that many processes do not look at once.
fn jittered(pause: Duration) -> Duration {
    if pause < Duration::from_millis(100) {
        return pause;
    }
    pause.mul_f64(0.8 + 0.2 * crate::engine::jitter())
}

/// How long an operator's command waits for room among the runs in hand.
const ROOM_PATIENCE: Duration = Duration::from_secs(5);

/// How long an operator's command tries to take a run that a worker holds: a worker that looks at a
/// parked run returns it at once. The last try may wait [`ROOM_PATIENCE`] more.
const HELD_PATIENCE: Duration = Duration::from_secs(2);

/// How long it rests between two tries.
const HELD_PAUSE: Duration = Duration::from_millis(50);

/// Why a single run could not be taken.
#[derive(Debug)]
pub(crate) enum TakeError {
    /// Somebody else holds it, or this process has no room.
    Busy,
    /// The database did not answer in time.
    Unavailable(String),
}

impl Engine {
    /// Takes a run like any worker, for a person's command.
    pub(crate) async fn take(&self, run: RunId) -> Result<Turn, TakeError> {
        let (until, stop) = (Instant::now() + HELD_PATIENCE, &self.inner.stop);
        loop {
            match self.take_now(run).await {
                Err(TakeError::Busy) if Instant::now() < until && !stop.is_cancelled() => {
                    tokio::time::sleep(HELD_PAUSE).await;
                }
                taken => return taken,
            }
        }
    }

    async fn take_now(&self, run: RunId) -> Result<Turn, TakeError> {
        let inner = &self.inner;
        let tenure = inner.tenure();
        let room = inner.room.clone().acquire_owned();
        let Ok(Ok(permit)) = tokio::time::timeout(ROOM_PATIENCE, room).await else {
            return Err(TakeError::Busy);
        };
        let session = tenure.session;
        let mut taker = inner.single.lock().await;
        // Until the turn has entered the run, or nobody here will come to carry it.
        let holding = inner.holdings.carry(session, run);
        let taken = match within_patience(taker.take_one(session, run)).await {
            Ok(taken) => taken,
            Err(error) => {
                drop(holding);
                inner.holdings.ask();
                taker.recover_link().await;
                return Err(TakeError::Unavailable(error));
            }
        };
        drop(taker);
        let (taken, now) = taken.ok_or(TakeError::Busy)?;
        inner.clock.set(now);
        match inner.load(taken, tenure, permit).await {
            Ok(turn) => Ok(turn),
            Err(unloaded) => {
                let reason = unloaded.reason();
                inner.put_off(unloaded).await;
                Err(TakeError::Unavailable(reason))
            }
        }
    }
}
