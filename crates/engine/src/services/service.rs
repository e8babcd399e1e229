//! The loop that every service runs.
//!
//! ```text
//! pause, unless a wake-up cuts it short ──▶ pass ──┬─ done ───▶ the pause that the pass asks for
//!                                                 └─ failed ─▶ back off, whatever wakes it up
//! ```
//!
//! A duty belongs to one server, or a few: the roster says which. The others make a pass only where something wakes
//! them, such as an event that one of their own runs emitted, and until that pass leaves nothing to do.
//! So work starts as quickly on any server, and the others do not ask the database about it. A server that a duty
//! passes to makes a pass at once; so does the next server where the holders of a duty finish nothing.
//!
//! A pause is shortened by jitter, so that servers that started together do not query together. A
//! pass that fails is counted by service. It is logged as a warning if the number of failures in a
//! row is a power of two, so that an outage of a day costs a few lines. Each pass leaves its mark in the record of the
//! service. A panic ends the loop; `supervision.rs` begins it anew.

use std::error::Error;
use std::fmt::Write as _;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::runtime::{PassBy, Roster, ServiceRecord, jitter};

/// The pause after the first of several failures in a row. Each further one doubles it.
const BACKOFF_MIN: Duration = Duration::from_millis(100);

/// A pause that is shorter than this one is exact.
const JITTER_FROM: Duration = Duration::from_millis(100);

/// After how many of its periods without a finished pass a service is late.
const LATE_PERIODS: u32 = 3;

/// How often servers say what they finished. No period is shorter for lateness, because others cannot see it sooner.
pub(super) const MARK_EVERY: Duration = Duration::from_secs(10);

/// The most characters of an error that are logged and recorded.
const ERROR_CHARS_MAX: usize = 400;

/// Why a pass failed. The loop counts and logs it, and tries again.
pub(super) type PassError = Box<dyn Error + Send + Sync>;

/// Which servers make the passes of a service that nothing woke.
#[derive(Clone, Copy, Debug)]
pub(super) enum HeldBy {
    /// Every server: it is about the process itself.
    EveryServer,
    /// So many of the live servers. More than one shares work that grows with the load.
    Holders(usize),
}

impl HeldBy {
    /// How many servers hold the duty; none where every server does it for itself.
    pub(super) fn holders(self) -> Option<usize> {
        match self {
            Self::EveryServer => None,
            Self::Holders(count) => Some(count),
        }
    }

    fn includes(self, roster: &Roster, duty: &str) -> bool {
        let holders = self.holders();
        holders.is_none_or(|holders| roster.holds(duty, holders))
    }

    /// The capacity in which this server makes a pass.
    pub(super) fn pass_by(self, roster: &Roster, duty: &str) -> PassBy {
        match self {
            Self::EveryServer => PassBy::Holder,
            Self::Holders(count) if roster.is_among(duty, count) => PassBy::Holder,
            Self::Holders(count) if roster.holds(duty, count) => PassBy::Substitute,
            Self::Holders(_) => PassBy::Woken,
        }
    }
}

/// How a service paces itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// The pause before the first pass.
    pub(super) first: Duration,
    /// The pause after a pass that left nothing to do.
    pub(super) interval: Duration,
    /// The pause after the first of several failures in a row.
    pub(super) backoff_min: Duration,
    /// The longest pause after failures in a row.
    pub(super) backoff_max: Duration,
}

impl Pace {
    /// A pass in every interval, the first one after an interval.
    pub(super) const fn every(interval: Duration) -> Self {
        Self {
            first: interval,
            interval,
            backoff_min: BACKOFF_MIN,
            backoff_max: interval,
        }
    }

    /// A pass in every interval, the first one now.
    pub(super) const fn from_start(interval: Duration) -> Self {
        Self {
            first: Duration::ZERO,
            ..Self::every(interval)
        }
    }
}

/// The surroundings of the passes of a service.
#[derive(Clone)]
pub(super) struct Surroundings {
    pub(super) shutdown: CancellationToken,
    pub(super) roster: watch::Receiver<Roster>,
    /// The longest pause between two passes.
    pub(super) pause_max: Duration,
}

/// How a service begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// With its process.
    First,
    /// After a panic, with a state of its own, and a pass at once: what the last pass had in hand is left to do.
    Anew,
}

/// Something that a process does by itself, pass after pass, until it stops.
pub(super) trait Service: Send + Sized + 'static {
    /// What logs and metrics call the service.
    const NAME: &'static str;

    /// Which servers make the passes that nothing woke.
    const HELD_BY: HeldBy;

    /// Where its failures are counted.
    fn metrics(&self) -> &Metrics;

    /// How it paces itself.
    fn pace(&self) -> Pace;

    /// How long it may finish no pass before it is late. More than the longest pass that goes well.
    fn late_after(&self) -> Duration {
        self.pace().interval.max(MARK_EVERY) * LATE_PERIODS
    }

    /// Does what is due, and returns how long to pause. Zero is for a pass that made progress and
    /// left more to do.
    fn pass(&mut self) -> impl Future<Output = Result<Duration, PassError>> + Send;

    /// Completes when there may be something to do before the pause is over.
    fn wake_up(&mut self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// The duty has passed to another server: what this one says about it no longer holds.
    fn hand_over(&mut self) {}

    /// Waits for what the passes started, after the last one.
    fn finish(&mut self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Runs the service until the shutdown. A pass that has begun is completed.
    fn run(
        mut self,
        beginning: Beginning,
        record: &ServiceRecord,
        surroundings: Surroundings,
    ) -> impl Future<Output = ()> + Send {
        async move {
            let Surroundings {
                shutdown,
                mut roster,
                pause_max,
            } = surroundings;
            let mut pause = match beginning {
                Beginning::First => self.pace().first.min(pause_max),
                Beginning::Anew => Duration::ZERO,
            };
            let mut failures = 0_u32;
            // Whether the last pass left more to do: then this server goes on, whoever holds the duty.
            let mut goes_on = beginning == Beginning::Anew;
            // Whether this server held the duty, and has not handed it over.
            let mut held_before = false;
            loop {
                let holds = Self::HELD_BY.includes(&roster.borrow(), Self::NAME);
                if held_before && !holds && !goes_on {
                    self.hand_over();
                }
                held_before = holds || (held_before && goes_on);
                tokio::select! {
                    biased;
                    () = shutdown.cancelled() => break,
                    () = self.wake_up(), if failures == 0 => {}
                    () = tokio::time::sleep(jittered(pause)), if holds || goes_on => {
                        let holds = Self::HELD_BY.includes(&roster.borrow(), Self::NAME);
                        if !holds && !goes_on {
                            continue;
                        }
                    }
                    () = held(&mut roster, Self::HELD_BY, Self::NAME), if !holds => {}
                    () = record.asked() => {}
                }
                record.begin();
                let passed = self.pass().await;
                let by = Self::HELD_BY.pass_by(&roster.borrow(), Self::NAME);
                pause = match passed {
                    Ok(pause) => {
                        log_recovery(Self::NAME, failures);
                        failures = 0;
                        goes_on = pause < self.pace().interval;
                        self.metrics().service_passes.add_one(Self::NAME);
                        record.finish(by);
                        pause.min(pause_max)
                    }
                    Err(error) => {
                        failures = failures.saturating_add(1);
                        goes_on = true;
                        self.metrics().service_failures.add_one(Self::NAME);
                        let error = describe(error.as_ref());
                        log_failure(Self::NAME, failures, &error);
                        record.fail(by, &error);
                        let Pace {
                            backoff_min,
                            backoff_max,
                            ..
                        } = self.pace();
                        backoff(failures, backoff_min, backoff_max)
                    }
                };
            }
            self.finish().await;
        }
    }
}

/// Completes when this server holds the duty.
async fn held(roster: &mut watch::Receiver<Roster>, held_by: HeldBy, duty: &str) {
    let gained = roster.wait_for(|roster| held_by.includes(roster, duty));
    let is_gone = gained.await.is_err();
    if is_gone {
        // The engine is gone, and nothing changes any more.
        std::future::pending().await
    }
}

/// The pause after so many failures in a row.
pub(super) fn backoff(failures: u32, min: Duration, max: Duration) -> Duration {
    let doublings = failures.saturating_sub(1).min(31);
    min.saturating_mul(1 << doublings).min(max)
}

fn jittered(pause: Duration) -> Duration {
    match pause < JITTER_FROM {
        true => pause,
        false => pause.mul_f64(0.8 + 0.2 * jitter()),
    }
}

/// An error and its causes. Of each the first line: what a database says below that may be somebody's values.
fn describe(error: &(dyn Error + 'static)) -> String {
    let first_line = |error: &dyn Error| {
        let text = error.to_string();
        text.lines().next().unwrap_or_default().to_owned()
    };
    let mut text = first_line(error);
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(text, ": {}", first_line(error));
        cause = error.source();
    }
    semel_model::storable::excerpt(&text, ERROR_CHARS_MAX)
}

fn log_failure(service: &str, failures: u32, error: &str) {
    match failures.is_power_of_two() {
        true => tracing::warn!(service, failures, error, "service pass failed"),
        false => tracing::debug!(service, failures, error, "service pass failed"),
    }
}

fn log_recovery(service: &str, failures: u32) {
    if failures > 0 {
        tracing::info!(service, failures, "service pass succeeded again");
    }
}

#[cfg(test)]
mod tests;
