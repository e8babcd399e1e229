//! The poller: takes runs that are due, in batches, for as long as there is room for them. It waits for no
//! run's place or memory.
//!
//! A server without work makes one statement twice a second, the look. It says whether a run is due, and what
//! else a server has to know of the others: which are live, and whether the configuration changed.

use std::sync::Arc;
use std::time::Duration;

use semel_store::queue::{TAKE_BYTES_MAX, Taken, TakenRuns, Taker};
use tokio::time::Instant;

use super::service::{HeldBy, Pace, PassError, Service};
use crate::metrics::Metrics;
use crate::runtime::{Holding, POLL_EVERY, Runtime, WorkerSession};
use crate::turn::take::{HEAD_START_SECS_MAX, RunToBegin, within_patience};

/// The longest pause before a take that failed is repeated.
const RETRY_MAX: Duration = Duration::from_millis(100);

/// The least that a take may load, however little memory there is for runs.
const TAKE_BYTES_MIN: usize = 1 << 20;

/// How often a server looks. Jitter may shorten the pause between two looks by a fifth.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The shortest pause after a take that found nothing.
const REST_MIN: Duration = Duration::from_millis(20);

/// Takes runs that are due.
pub(super) struct Poller {
    runtime: Arc<Runtime>,
    pace: Pace,
    taker: Taker,
    /// How often a process looks for runs that were taken before without progress.
    suspects_interval: Duration,
    suspects_due: Instant,
    look_interval: Duration,
    look_due: Instant,
    /// When a run may be due, as far as the last look or take could tell.
    take_due: Instant,
    /// Whether something in this process says that a run may be due.
    woken: bool,
}

impl Poller {
    pub(super) fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            taker: Taker::new(&runtime.cell).with_bytes_max(take_bytes_max(&runtime)),
            pace: Pace {
                backoff_max: RETRY_MAX,
                ..Pace::from_start(POLL_EVERY)
            },
            suspects_interval: Duration::from_millis(200),
            suspects_due: Instant::now(),
            look_interval: look_interval(&runtime),
            look_due: Instant::now(),
            take_due: Instant::now(),
            woken: true,
            runtime,
        }
    }

    /// Looks whether a run is due, and has the process follow what else has changed.
    async fn look(&mut self) -> Result<(), String> {
        let look = within_patience(self.taker.look()).await?;
        self.runtime.note_look(&look);
        let mut next_due = look.next_due.unwrap_or(POLL_EVERY);
        if self.runtime.catalogue.has_flows_that_give_way() {
            // A run that lets others go first may be taken so much sooner.
            next_due = next_due.saturating_sub(Duration::from_secs_f64(HEAD_START_SECS_MAX));
        }
        self.look_due = Instant::now() + self.look_interval.mul_f64(0.8);
        self.take_due = Instant::now() + next_due;
        Ok(())
    }

    /// How long there is nothing to do.
    fn rest(&self) -> Duration {
        let due = self.take_due.saturating_duration_since(Instant::now());
        due.min(self.look_interval)
    }

    /// Takes a batch and moves its runs; says how long nothing is due.
    async fn take_due(
        &mut self,
        session: &Arc<WorkerSession>,
        room: usize,
    ) -> Result<Duration, String> {
        let (catch, holdings) = self.take_batch(session, room).await?;
        let runtime = &self.runtime;
        runtime.clock.set(catch.now);
        if catch.taken.is_empty() {
            // What is due may be of a namespace that has its share: its runs end before long.
            let next = catch.next_due.unwrap_or(POLL_EVERY);
            return Ok(next.clamp(REST_MIN, POLL_EVERY));
        }
        let runs = catch.taken.into_iter().zip(holdings);
        let runs = runs.map(|(taken, holding)| RunToBegin {
            taken,
            session: session.clone(),
            holding,
        });
        runtime.begin_all(runs.collect()).await;
        Ok(Duration::ZERO)
    }

    /// Takes a batch and enters its runs, while the queue is not compared with what is carried.
    async fn take_batch(
        &mut self,
        session: &WorkerSession,
        room: usize,
    ) -> Result<(TakenRuns, Vec<Holding>), String> {
        let (runtime, taker) = (&self.runtime, &mut self.taker);
        let _no_comparison = runtime.work.holdings.taking().await;
        let limits = runtime.work.room.limits(&runtime.catalogue.namespaces());
        let take = taker.take_fairly(session.id, room, &limits);
        let mut catch = within_patience(take).await?;
        if catch.taken.is_empty() && runtime.catalogue.has_flows_that_give_way() {
            // Runs that let others go first, now that there are none.
            let early = taker.take_early(session.id, room, HEAD_START_SECS_MAX, &limits);
            catch.taken = within_patience(early).await?;
        }
        let enter = |taken: &Taken| runtime.work.holdings.carry(session.id, taken.run);
        let holdings = catch.taken.iter().map(enter).collect();
        Ok((catch, holdings))
    }

    /// Takes a group of runs that were taken before without progress, unless this process holds one already.
    /// Says how many these are.
    async fn take_suspects(&mut self, room: usize) -> usize {
        let (runtime, taker) = (&self.runtime, &mut self.taker);
        let Some(right) = runtime.work.stalled.right() else {
            return 0;
        };
        let session = runtime.session();
        let no_comparison = runtime.work.holdings.taking().await;
        let take = taker.take_suspects(session.id, room);
        match within_patience(take).await {
            Ok(taken) if taken.is_empty() => 0,
            Ok(taken) => {
                let enter = |taken: Taken| RunToBegin {
                    holding: runtime.work.holdings.carry(session.id, taken.run),
                    session: session.clone(),
                    taken,
                };
                let runs: Vec<RunToBegin> = taken.into_iter().map(enter).collect();
                drop(no_comparison);
                let count = runs.len();
                runtime.begin_suspects(runs, right);
                count
            }
            Err(error) => {
                drop(no_comparison);
                tracing::warn!(error, "failed to take runs without progress");
                self.recover().await;
                0
            }
        }
    }

    /// A take that failed may have committed, and its connection may be broken.
    async fn recover(&mut self) {
        self.taker.recover_link().await;
        self.runtime.work.holdings.ask_after_failure();
    }
}

/// A quarter of the memory for runs, as text: what becomes of it is counted before it is read.
fn take_bytes_max(runtime: &Runtime) -> usize {
    let quarter = runtime.options.memory.total() / 4;
    quarter.clamp(TAKE_BYTES_MIN, TAKE_BYTES_MAX)
}

/// A rehearsal moves the clock, and looks as often as it pauses.
fn look_interval(runtime: &Runtime) -> Duration {
    let rehearsal = runtime.rehearsal.as_ref();
    rehearsal.map_or(LOOK_EVERY, |rehearsal| rehearsal.pause_max.min(LOOK_EVERY))
}

impl Service for Poller {
    const NAME: &'static str = "poller";
    const HELD_BY: HeldBy = HeldBy::EveryServer;

    fn metrics(&self) -> &Metrics {
        &self.runtime.metrics
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    async fn pass(&mut self) -> Result<Duration, PassError> {
        let mut room = self.runtime.work.room.free();
        let session = self.runtime.session();
        if Instant::now() >= self.look_due {
            let looked = self.look().await;
            if looked.is_err() {
                self.recover().await;
            }
            looked?;
        }
        if room == 0 || !session.is_live() {
            return Ok(self.look_interval);
        }
        if !std::mem::take(&mut self.woken) && self.take_due > Instant::now() {
            return Ok(self.rest());
        }
        if Instant::now() >= self.suspects_due {
            let suspects = self.take_suspects(room).await;
            if suspects == 0 {
                self.suspects_due = Instant::now() + self.suspects_interval;
            }
            room = room.saturating_sub(suspects).max(1);
        }
        let taken = self.take_due(&session, room).await;
        if taken.is_err() {
            self.recover().await;
        }
        self.take_due = Instant::now() + taken?;
        Ok(self.rest())
    }

    async fn wake_up(&mut self) {
        self.runtime.signals.wake.notified().await;
        self.woken = true;
    }
}
