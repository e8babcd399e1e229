//! Takes runs that are due, in batches, for as long as there is room for them.

use std::sync::Arc;
use std::time::Duration;

use semel_store::queue::{Catch, Taken, Taker};
use tokio::time::Instant;

use crate::runtime::{Holding, POLL_EVERY, Runtime, WorkerSession, jitter};
use crate::turn::take::{HEAD_START_SECS_MAX, within_patience};

/// Takes runs that are due, in batches, for as long as there is room for them.
pub(crate) async fn keep_taking(runtime: Arc<Runtime>) {
    let mut taker = Taker::new(&runtime.cell);
    let mut look_for_suspects = Instant::now();
    while !runtime.shutdown.requested.is_cancelled() {
        let room = runtime.work.room.available_permits();
        let session = runtime.session();
        let pause = if room == 0 || !session.is_live() {
            POLL_EVERY
        } else {
            if Instant::now() >= look_for_suspects && !take_suspect(&runtime, &mut taker).await {
                look_for_suspects = Instant::now() + SUSPECTS_EVERY;
            }
            match take_batch(&runtime, &mut taker, &session, room).await {
                Ok((catch, holdings)) => {
                    runtime.clock.set(catch.now);
                    let full = !catch.taken.is_empty();
                    for (taken, holding) in catch.taken.into_iter().zip(holdings) {
                        runtime.metrics.taken.add_one();
                        runtime.clone().move_on(taken, session.clone(), None).await;
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
                    tracing::warn!(error, "failed to take runs");
                    taker.recover_link().await;
                    runtime.work.holdings.ask();
                    POLL_EVERY / 10
                }
            }
        };
        tokio::select! {
            () = runtime.signals.wake.notified() => {}
            () = tokio::time::sleep(jittered(pause.min(POLL_EVERY))) => {}
            () = runtime.shutdown.requested.cancelled() => {}
        }
    }
}

/// Takes one run that was taken before without progress, unless this process holds one already.
async fn take_suspect(runtime: &Arc<Runtime>, taker: &mut Taker) -> bool {
    let Some(alone) = runtime.work.stalled.alone() else {
        return false;
    };
    let session = runtime.session();
    let no_comparison = runtime.work.holdings.taking().await;
    match within_patience(taker.take_suspect(session.id)).await {
        Ok(Some(taken)) => {
            let _holding = runtime.work.holdings.carry(session.id, taken.run);
            drop(no_comparison);
            runtime.metrics.taken.add_one();
            runtime.clone().move_on(taken, session, Some(alone)).await;
            true
        }
        Ok(None) => false,
        Err(error) => {
            drop(no_comparison);
            tracing::warn!(error, "failed to take a run without progress");
            taker.recover_link().await;
            runtime.work.holdings.ask();
            false
        }
    }
}

/// How often a process looks for runs that were taken before without progress.
const SUSPECTS_EVERY: Duration = Duration::from_millis(200);

/// Takes a batch and enters its runs, while the queue is not compared with what is carried.
async fn take_batch(
    runtime: &Runtime,
    taker: &mut Taker,
    session: &WorkerSession,
    room: usize,
) -> Result<(Catch, Vec<Holding>), String> {
    let counts = runtime.work.stalled.alone().is_some();
    let _no_comparison = runtime.work.holdings.taking().await;
    let mut catch = within_patience(taker.take(session.id, room, counts)).await?;
    if catch.taken.is_empty() && runtime.catalogue.has_flows_that_give_way() {
        // Runs of low priority, now that there are no others.
        let early = taker.take_early(session.id, room, HEAD_START_SECS_MAX);
        catch.taken = within_patience(early).await?;
    }
    let enter = |taken: &Taken| runtime.work.holdings.carry(session.id, taken.run);
    let holdings = catch.taken.iter().map(enter).collect();
    Ok((catch, holdings))
}

/// With jitter, so that many processes do not poll at once.
fn jittered(pause: Duration) -> Duration {
    if pause < Duration::from_millis(100) {
        return pause;
    }
    pause.mul_f64(0.8 + 0.2 * jitter())
}
