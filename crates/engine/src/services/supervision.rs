//! Supervision: a panic ends a pass, and not the service.
//!
//! ```text
//! made ──▶ runs ──┬─ shut down ──▶ over
//!   ▲             └─ panics ──▶ counted ──▶ rests, longer each time ─┐
//!   └────────────────────────────────────────────────────────────────┘
//! ```
//!
//! After a panic nothing is known of a service's state. So it is dropped, and another is made from the runtime alone, as
//! on a server that takes the duty over from one that died: what was in hand is in the database, under a lease or a key.
//! Tasks that the state holds are cut off with it, as by a crash. What it held of the runtime, such as places and runs to
//! begin, is given back as it is dropped.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;

use super::service::{Beginning, Service, Surroundings, backoff};
use crate::runtime::ServiceRecord;

/// The pause after the first of several panics without a finished pass between them. Each further one doubles it.
const REST_MIN: Duration = Duration::from_millis(100);

/// The longest pause after a panic.
const REST_MAX: Duration = Duration::from_secs(10);

/// Why a pass failed that panicked. The message of the panic may be of anything, and goes to standard error alone.
const PANICKED: &str = "it panicked: the standard error of the process says where";

/// Runs a service until the shutdown, and makes it anew after every panic.
pub(super) async fn supervise<S: Service>(
    mut service: S,
    make: impl Fn() -> S + Send,
    record: Arc<ServiceRecord>,
    surroundings: Surroundings,
) {
    let mut beginning = Beginning::First;
    let mut panics = 0_u32;
    loop {
        let last_finished = record.last_finished();
        let running = service.run(beginning, &record, surroundings.clone());
        if AssertUnwindSafe(running).catch_unwind().await.is_ok() {
            return;
        }
        panics = match record.last_finished() == last_finished {
            true => panics.saturating_add(1),
            false => 1,
        };
        service = make();
        beginning = Beginning::Anew;
        service.metrics().service_panics.add_one(S::NAME);
        let by = S::HELD_BY.pass_by(&surroundings.roster.borrow(), S::NAME);
        record.fail(by, PANICKED);
        log_panic(S::NAME, panics);
        if surroundings.shutdown.is_cancelled() {
            return;
        }
        tokio::select! {
            () = surroundings.shutdown.cancelled() => {}
            () = tokio::time::sleep(backoff(panics, REST_MIN, REST_MAX)) => {}
        }
    }
}

fn log_panic(service: &str, panics: u32) {
    let message = "a service panicked, and begins anew with a state of its own";
    match panics.is_power_of_two() {
        true => tracing::error!(service, panics, "{message}"),
        false => tracing::debug!(service, panics, "{message}"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::watch;
    use tokio_util::sync::CancellationToken;

    use super::super::service::{HeldBy, Pace, PassError};
    use super::*;
    use crate::metrics::Metrics;
    use crate::runtime::Roster;

    /// Panics as often as it is told to, wherever it is made, and says which of its kind makes a pass.
    struct Fragile {
        number: u32,
        metrics: Arc<Metrics>,
        panics_left: Arc<AtomicU32>,
        passes: watch::Sender<Option<u32>>,
        ends_badly: bool,
    }

    impl Service for Fragile {
        const NAME: &'static str = "fragile";
        const HELD_BY: HeldBy = HeldBy::EveryServer;

        fn metrics(&self) -> &Metrics {
            &self.metrics
        }

        fn pace(&self) -> Pace {
            Pace::from_start(Duration::from_secs(3_600))
        }

        async fn pass(&mut self) -> Result<Duration, PassError> {
            let left = self.panics_left.load(Ordering::SeqCst);
            if left > 0 {
                self.panics_left.store(left - 1, Ordering::SeqCst);
                panic!("as it was told to");
            }
            self.passes.send_replace(Some(self.number));
            Ok(self.pace().interval)
        }

        async fn finish(&mut self) {
            assert!(!self.ends_badly, "as it was told to");
        }
    }

    struct Watched {
        metrics: Arc<Metrics>,
        record: Arc<ServiceRecord>,
        passes: watch::Receiver<Option<u32>>,
        shutdown: CancellationToken,
        ended: tokio::task::JoinHandle<()>,
    }

    fn start(panics: u32, ends_badly: bool) -> Watched {
        let (sender, passes) = watch::channel(None);
        let (metrics, shutdown) = (Arc::<Metrics>::default(), CancellationToken::new());
        let (counted, panics_left) = (metrics.clone(), Arc::new(AtomicU32::new(panics)));
        let made = AtomicU32::new(0);
        let make = move || Fragile {
            number: made.fetch_add(1, Ordering::SeqCst),
            metrics: counted.clone(),
            panics_left: panics_left.clone(),
            passes: sender.clone(),
            ends_badly,
        };
        let record = Arc::new(ServiceRecord::new("fragile", None, Duration::MAX));
        let surroundings = Surroundings {
            shutdown: shutdown.clone(),
            roster: watch::Sender::<Roster>::default().subscribe(),
            pause_max: Duration::MAX,
        };
        let ended = tokio::spawn(supervise(make(), make, record.clone(), surroundings));
        Watched {
            metrics,
            record,
            passes,
            shutdown,
            ended,
        }
    }

    #[tokio::test]
    async fn a_panic_in_a_pass_does_not_end_the_service() {
        let mut watched = start(2, false);

        watched.passes.wait_for(Option::is_some).await.unwrap();
        let by = *watched.passes.borrow();
        watched.shutdown.cancel();
        watched.ended.await.unwrap();

        assert_eq!(by, Some(2), "each panic takes the state with it");
        assert_eq!(watched.metrics.service_panics.get("fragile"), 2);
        assert_eq!(watched.metrics.service_passes.get("fragile"), 1);
        assert_eq!(
            watched.record.last_finished(),
            3,
            "the third that was begun"
        );
    }

    #[tokio::test]
    async fn a_service_that_panics_as_it_ends_is_not_begun_for_ever() {
        let mut watched = start(0, true);
        watched.passes.wait_for(Option::is_some).await.unwrap();

        watched.shutdown.cancel();
        watched.ended.await.unwrap();

        assert_eq!(watched.metrics.service_panics.get("fragile"), 1);
    }
}
