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
//! passes to makes a pass at once.
//!
//! A pause is shortened by jitter, so that servers that started together do not query together. A
//! pass that fails is counted by service. It is logged as a warning if the number of failures in a
//! row is a power of two, so that an outage of a day costs a few lines.

use std::error::Error;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::runtime::{Roster, jitter};

/// The pause after the first of several failures in a row. Each further one doubles it.
const BACKOFF_MIN: Duration = Duration::from_millis(100);

/// A pause that is shorter than this one is exact.
const JITTER_FROM: Duration = Duration::from_millis(100);

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
    fn includes(self, roster: &Roster, duty: &str) -> bool {
        match self {
            Self::EveryServer => true,
            Self::Holders(count) => roster.holds(duty, count),
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
    /// The longest pause after failures in a row.
    pub(super) backoff_max: Duration,
}

impl Pace {
    /// A pass in every interval, the first one after an interval.
    pub(super) const fn every(interval: Duration) -> Self {
        Self {
            first: interval,
            interval,
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

    /// Runs the service until the shutdown, with pauses of a length at the most. A pass that has
    /// begun is completed.
    fn run(
        mut self,
        shutdown: CancellationToken,
        mut roster: watch::Receiver<Roster>,
        pause_max: Duration,
    ) -> impl Future<Output = ()> + Send {
        async move {
            let mut pause = self.pace().first.min(pause_max);
            let mut failures = 0_u32;
            // Whether the last pass left more to do: then this server goes on, whoever holds the duty.
            let mut goes_on = false;
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
                }
                pause = match self.pass().await {
                    Ok(pause) => {
                        log_recovery(Self::NAME, failures);
                        failures = 0;
                        goes_on = pause < self.pace().interval;
                        pause.min(pause_max)
                    }
                    Err(error) => {
                        failures = failures.saturating_add(1);
                        goes_on = true;
                        self.metrics().service_failures.add_one(Self::NAME);
                        log_failure(Self::NAME, failures, &error);
                        backoff(failures, self.pace().backoff_max)
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
fn backoff(failures: u32, max: Duration) -> Duration {
    let doublings = failures.saturating_sub(1).min(31);
    BACKOFF_MIN.saturating_mul(1 << doublings).min(max)
}

fn jittered(pause: Duration) -> Duration {
    match pause < JITTER_FROM {
        true => pause,
        false => pause.mul_f64(0.8 + 0.2 * jitter()),
    }
}

fn log_failure(service: &str, failures: u32, error: &PassError) {
    match failures.is_power_of_two() {
        true => tracing::warn!(service, failures, %error, "service pass failed"),
        false => tracing::debug!(service, failures, %error, "service pass failed"),
    }
}

fn log_recovery(service: &str, failures: u32) {
    if failures > 0 {
        tracing::info!(service, failures, "service pass succeeded again");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use semel_model::SessionId;
    use tokio::sync::{Notify, mpsc};

    use super::*;

    const NEVER: Duration = Duration::from_secs(3_600);

    /// Reports each of its passes and fails those that it is asked to fail.
    struct Probe {
        metrics: Arc<Metrics>,
        pace: Pace,
        wake: Arc<Notify>,
        passes: mpsc::UnboundedSender<()>,
        failures: u32,
        finished: Arc<Notify>,
    }

    impl Service for Probe {
        const NAME: &'static str = "probe";
        const HELD_BY: HeldBy = HeldBy::Holders(1);

        fn metrics(&self) -> &Metrics {
            &self.metrics
        }

        fn pace(&self) -> Pace {
            self.pace
        }

        async fn pass(&mut self) -> Result<Duration, PassError> {
            let _ = self.passes.send(());
            match self.failures {
                0 => Ok(self.pace.interval),
                left => {
                    self.failures = left - 1;
                    Err("the database is away".into())
                }
            }
        }

        async fn wake_up(&mut self) {
            self.wake.notified().await;
        }

        async fn finish(&mut self) {
            self.finished.notify_one();
        }
    }

    /// Of a server that is alone, or of one that another server goes before.
    fn roster(alone: bool) -> watch::Sender<Roster> {
        let (me, other) = (SessionId::generate(), SessionId::generate());
        let live = if alone { vec![me] } else { vec![other] };
        watch::Sender::new(Roster::new(me, live))
    }

    fn probe(pace: Pace, failures: u32) -> (Probe, mpsc::UnboundedReceiver<()>) {
        let (passes, seen) = mpsc::unbounded_channel();
        let probe = Probe {
            metrics: Arc::default(),
            pace,
            wake: Arc::default(),
            passes,
            failures,
            finished: Arc::default(),
        };
        (probe, seen)
    }

    #[tokio::test]
    async fn a_wake_up_cuts_the_pause_short_and_a_shutdown_ends_the_loop() {
        let (probe, mut passes) = probe(Pace::every(NEVER), 0);
        let (wake, finished) = (probe.wake.clone(), probe.finished.clone());
        let shutdown = CancellationToken::new();
        let service = tokio::spawn(probe.run(shutdown.clone(), roster(true).subscribe(), NEVER));

        wake.notify_one();
        passes.recv().await.unwrap();
        shutdown.cancel();
        service.await.unwrap();

        finished.notified().await;
        assert!(passes.try_recv().is_err(), "one pass");
    }

    #[tokio::test]
    async fn nothing_wakes_a_service_that_backs_off() {
        let pace = Pace {
            backoff_max: NEVER,
            ..Pace::from_start(NEVER)
        };
        let (probe, mut passes) = probe(pace, 1);
        let (wake, metrics) = (probe.wake.clone(), probe.metrics.clone());
        let begun = tokio::time::Instant::now();
        let roster = roster(true);
        let service = tokio::spawn(probe.run(CancellationToken::new(), roster.subscribe(), NEVER));

        passes.recv().await.unwrap();
        wake.notify_one();
        passes.recv().await.unwrap();

        assert!(begun.elapsed() >= BACKOFF_MIN.mul_f64(0.8));
        assert_eq!(metrics.service_failures.list(), [("probe", 1)]);
        service.abort();
    }

    #[tokio::test]
    async fn a_server_without_the_duty_passes_when_it_is_woken_and_when_the_duty_passes_to_it() {
        let pace = Pace::from_start(Duration::from_millis(1));
        let (holder, mut elsewhere) = probe(pace, 0);
        let (probe, mut passes) = probe(pace, 0);
        let (wake, alone, roster) = (probe.wake.clone(), roster(true), roster(false));
        let holder = tokio::spawn(holder.run(CancellationToken::new(), alone.subscribe(), NEVER));
        let service = tokio::spawn(probe.run(CancellationToken::new(), roster.subscribe(), NEVER));

        ten_passes(&mut elsewhere).await;
        let unwoken = passes.try_recv();
        wake.notify_one();
        passes.recv().await.unwrap();
        ten_passes(&mut elsewhere).await;
        let again = passes.try_recv();
        let me = SessionId::generate();
        roster.send_replace(Roster::new(me, vec![me]));

        assert!(unwoken.is_err(), "no pass by itself");
        assert!(again.is_err(), "one pass for a wake-up");
        passes.recv().await.unwrap();
        passes.recv().await.unwrap();
        service.abort();
        holder.abort();
    }

    /// Waits for ten passes of a server that holds the duty: one that made passes by itself would have made some.
    async fn ten_passes(elsewhere: &mut mpsc::UnboundedReceiver<()>) {
        while elsewhere.try_recv().is_ok() {}
        for _ in 0..10 {
            elsewhere.recv().await.unwrap();
        }
    }

    #[test]
    fn the_back_off_doubles_up_to_its_limit() {
        let max = Duration::from_secs(1);
        let pauses = [1, 2, 4, 5, 1_000].map(|failures| backoff(failures, max).as_millis());

        assert_eq!(pauses, [100, 200, 800, 1_000, 1_000]);
        assert!(backoff(1, Duration::from_millis(20)) <= Duration::from_millis(20));
    }

    #[test]
    fn jitter_shortens_a_pause_by_a_fifth_at_most() {
        let pause = Duration::from_secs(1);
        let short = Duration::from_millis(99);

        let jittered_pause = jittered(pause);

        assert!(jittered_pause <= pause && jittered_pause >= pause.mul_f64(0.8));
        assert_eq!(jittered(short), short);
    }
}
