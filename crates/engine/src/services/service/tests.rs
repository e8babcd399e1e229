//! Tests of the loop that every service runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use semel_model::SessionId;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use super::*;
use crate::runtime::Duties;

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

/// A probe that runs, and what it says of its passes.
struct Running {
    task: JoinHandle<()>,
    duties: Duties,
    record: Arc<ServiceRecord>,
}

fn start(probe: Probe, shutdown: CancellationToken, roster: &watch::Sender<Roster>) -> Running {
    let duties = Duties::default();
    let record = duties.register("probe", Some(1), probe.late_after());
    let surroundings = Surroundings {
        shutdown,
        roster: roster.subscribe(),
        pause_max: NEVER,
    };
    let kept = record.clone();
    let running = async move { probe.run(Beginning::First, &kept, surroundings).await };
    Running {
        task: tokio::spawn(running),
        duties,
        record,
    }
}

#[tokio::test]
async fn a_wake_up_cuts_the_pause_short_and_a_shutdown_ends_the_loop() {
    let (probe, mut passes) = probe(Pace::every(NEVER), 0);
    let (wake, finished) = (probe.wake.clone(), probe.finished.clone());
    let shutdown = CancellationToken::new();
    let roster = roster(true);
    let service = start(probe, shutdown.clone(), &roster).task;

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
    let service = start(probe, CancellationToken::new(), &roster).task;

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
    let holder = start(holder, CancellationToken::new(), &alone).task;
    let service = start(probe, CancellationToken::new(), &roster).task;

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

/// The roster of a server that is second in rank for the duty.
fn second_in_rank() -> Roster {
    loop {
        let (me, other) = (SessionId::generate(), SessionId::generate());
        let roster = Roster::new(me, vec![me, other]);
        if !roster.holds(Probe::NAME, 1) {
            return roster;
        }
    }
}

#[tokio::test]
async fn a_server_takes_a_duty_that_is_late_and_says_that_it_is_no_holder() {
    let (probe, mut passes) = probe(Pace::every(NEVER), 0);
    let roster = watch::Sender::new(second_in_rank());
    let Running {
        task,
        duties,
        record,
    } = start(probe, CancellationToken::new(), &roster);

    assert!(record.whole_pass().await);
    passes.recv().await.unwrap();
    let of_woken = duties.take_notes();
    roster.send_modify(|roster| {
        roster.follow_late(BTreeMap::from([(Probe::NAME, 1)]));
    });
    // Nothing asks for this one.
    passes.recv().await.unwrap();
    assert!(record.whole_pass().await);
    let of_substitute = duties.take_notes();
    task.abort();

    assert!(
        of_woken.is_empty(),
        "the holder is responsible: {of_woken:?}"
    );
    let [note] = of_substitute.as_slice() else {
        panic!("{of_substitute:?}");
    };
    assert!(
        note.covered.is_some() && note.finished.is_none(),
        "{note:?}"
    );
}

#[tokio::test]
async fn a_holder_says_when_it_finished_a_pass_and_why_one_failed() {
    let pace = Pace {
        backoff_max: Duration::from_millis(1),
        ..Pace::from_start(NEVER)
    };
    let (probe, mut passes) = probe(pace, 1);
    let roster = roster(true);
    let Running {
        task,
        duties,
        record,
    } = start(probe, CancellationToken::new(), &roster);

    passes.recv().await.unwrap();
    assert!(record.whole_pass().await);
    let said = duties.take_notes();
    let again = duties.take_notes();
    duties.put_back(said.clone(), Duration::from_secs(1));
    let once_more = duties.take_notes();
    task.abort();

    let [note] = said.as_slice() else {
        panic!("{said:?}");
    };
    assert!(
        note.finished.is_some() && note.covered.is_none(),
        "{note:?}"
    );
    let failed = note.failed.as_ref().map(|(_, error)| error.as_str());
    assert_eq!(failed, Some("the database is away"));
    assert!(again.is_empty(), "each is said once: {again:?}");
    let [note_again] = once_more.as_slice() else {
        panic!("{once_more:?}");
    };
    assert!(note_again.finished > note.finished, "it is older by now");
    assert_eq!(note_again.failed.is_some(), note.failed.is_some());
}

#[test]
fn an_error_is_told_with_its_causes_and_without_what_stands_below_their_first_lines() {
    #[derive(Debug, thiserror::Error)]
    #[error("the database refused a statement")]
    struct Refused(#[source] Detailed);

    #[derive(Debug, thiserror::Error)]
    #[error("ERROR: duplicate key\nDETAIL: Key (name)=(Mia) exists")]
    struct Detailed;

    let told = describe(&Refused(Detailed));

    assert_eq!(
        told,
        "the database refused a statement: ERROR: duplicate key"
    );
}

#[test]
fn the_back_off_doubles_up_to_its_limit() {
    let max = Duration::from_secs(1);
    let pause = |failures| backoff(failures, BACKOFF_MIN, max).as_millis();
    let pauses = [1, 2, 4, 5, 1_000].map(pause);

    assert_eq!(pauses, [100, 200, 800, 1_000, 1_000]);
    let short = Duration::from_millis(20);
    assert_eq!(backoff(1, BACKOFF_MIN, short), short);
}

#[test]
fn jitter_shortens_a_pause_by_a_fifth_at_most() {
    let pause = Duration::from_secs(1);
    let short = Duration::from_millis(99);

    let jittered_pause = jittered(pause);

    assert!(jittered_pause <= pause && jittered_pause >= pause.mul_f64(0.8));
    assert_eq!(jittered(short), short);
}
