//! Outbox dispatch: events from the outbox to the flows that take them, the waits for them and subscribed webhooks.
//!
//! An event committed with the run that emitted it. It is dispatched at least once: a server takes it under a lease, and
//! where that server dies, another dispatches it again. No transaction is open while it is handed over.
//!
//! ```text
//! outbox ══▶ leased ══▶ receivers recorded ──▶ a run of each flow that takes it ═╗
//!                                         ├──▶ its waits answered ═══════════════╬══▶ removed from the outbox
//!                                         └──▶ a delivery per subscription ══════╝
//! ```
//!
//! `══▶` is a commit. A flow is recorded before it is asked, so that a repeat comes under the same key, and starts no run
//! where that key has run out since (`flows.rs`). An event that many waits are for becomes a broadcast, which is answered
//! beside all this.
//!
//! An event that a receiver cannot take now, or that needs something which this build cannot read, is left alone for a
//! while: a growing pause, and an hour where no version can read it. What is refused for good is recorded as refused.

mod calls;
mod flows;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use semel_model::{EffectId, SessionId, Span};
use semel_store::outbox::{self, OutboxEvent, OutboxRest, OutboxTaker, TakenEvent};
use semel_store::{ReadError, webhook_deliveries};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::service::{HeldBy, Pace, PassError, Service};
use crate::ingest::event::EventPayload;
use crate::metrics::Metrics;
use crate::runtime::Runtime;
use crate::turn::parent_state::Unread;
use flows::FlowsOfEvent;

/// How many events are handed over at the same time.
const TOGETHER: usize = 8;

/// The longest pause before an event is tried again that some version can read.
const PAUSE_SECS_MAX: u64 = 60;

/// The pause before an event is tried again that no version can read.
const DAMAGED_PAUSE: Span = Span::from_const_secs(3_600);

/// What is said of an event whose handling panicked.
pub(super) const PANICKED: &str = "handing it over panicked";

/// How often events of lost sessions are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(5);

/// Dispatches the events of the outbox.
pub(super) struct OutboxDispatch {
    runtime: Arc<Runtime>,
    pace: Pace,
    taker: OutboxTaker,
    /// Whether the session of this process may hold events that no pass has in hand: a pass failed, or none was made yet.
    may_hold: bool,
    swept_at: Option<Instant>,
}

impl OutboxDispatch {
    pub(super) fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            pace: Pace::every(Duration::from_secs(1)),
            taker: OutboxTaker::default(),
            may_hold: true,
            swept_at: None,
        }
    }

    /// Takes events and dispatches them; says how many were taken.
    async fn dispatch_outbox(&mut self) -> Result<usize, ReadError> {
        let runtime = self.runtime.clone();
        let (cell, lease) = (&runtime.cell, runtime.options.lease);
        let session = runtime.session();
        if !session.is_live() {
            return Ok(0);
        }
        self.free(session.id).await?;
        self.may_hold = true;
        let taken = mixed(self.taker.take(cell, session.id, lease).await?);
        let count = taken.len();
        if count > 0 {
            // A flow that went live before an event committed takes it, whichever server made it live.
            runtime.catalogue.refresh().await?;
            let batch = Batch {
                runtime: &runtime,
                session: session.id,
                lease,
                begun: Instant::now(),
            };
            let handed = batch.dispatch(&taken).await?;
            self.taker.note_served(&taken[..handed]);
            runtime.signals.deliveries_due.notify_one();
        }
        self.may_hold = false;
        Ok(count)
    }

    /// Makes the events due that nobody dispatches although a session has them.
    async fn free(&mut self, session: SessionId) -> Result<(), ReadError> {
        let cell = &self.runtime.cell;
        if self.may_hold {
            outbox::free_own(cell.every(), session).await?;
        }
        if self.swept_at.is_none_or(|at| at.elapsed() >= SWEEP_EVERY) {
            self.swept_at = Some(Instant::now());
            let freed = outbox::free_lost(cell.every()).await?;
            if freed > 0 {
                tracing::info!(events = freed, "took events back from lost sessions");
            }
        }
        Ok(())
    }
}

impl Service for OutboxDispatch {
    const NAME: &'static str = "outbox_dispatch";
    const HELD_BY: HeldBy = HeldBy::Holders(2);

    fn metrics(&self) -> &Metrics {
        &self.runtime.metrics
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    async fn pass(&mut self) -> Result<Duration, PassError> {
        match self.dispatch_outbox().await? {
            0 => Ok(self.pace.interval),
            _ => Ok(Duration::ZERO),
        }
    }

    async fn wake_up(&mut self) {
        self.runtime.signals.emitted.notified().await;
    }
}

/// Events that were taken together.
struct Batch<'a> {
    runtime: &'a Arc<Runtime>,
    session: SessionId,
    lease: Span,
    begun: Instant,
}

/// What one dispatch came to.
struct Handed {
    /// The flows that have the event, or refused it for good, each with its release.
    has: Vec<(i32, i32)>,
    /// Whether the waits and the subscriptions have it.
    is_answered: bool,
    /// Why some receiver does not.
    left: Option<Unread>,
}

impl Batch<'_> {
    /// Hands the events over, and renews their leases meanwhile. Says how many were handed over: the others were given back.
    async fn dispatch(&self, taken: &[TakenEvent]) -> Result<usize, ReadError> {
        let ids: Vec<EffectId> = taken.iter().map(|it| it.event.id).collect();
        let every = self.lease.to_duration() / 3;
        let mut renewals = interval_at(Instant::now() + every, every);
        renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let renewing = async {
            loop {
                renewals.tick().await;
                let cell = self.runtime.cell.every();
                // Where this fails, other servers dispatch the events as well.
                if let Err(error) = outbox::renew(cell, self.session, &ids, self.lease).await {
                    tracing::debug!(%error, "failed to renew the leases of events");
                }
            }
        };
        // Both go on while one of them waits for a connection, which the other may have.
        tokio::select! {
            biased;
            done = self.hand_over_all(taken) => done,
            () = renewing => unreachable!("leases are renewed until the events are handed over"),
        }
    }

    /// Hands events over until the batch has had its time, and gives the others back. The first are handed over in any
    /// case.
    async fn hand_over_all(&self, taken: &[TakenEvent]) -> Result<usize, ReadError> {
        let mut rest = taken;
        while !rest.is_empty() {
            let (group, behind) = rest.split_at(rest.len().min(TOGETHER));
            self.hand_over(group).await?;
            rest = behind;
            if self.is_over() {
                break;
            }
        }
        if !rest.is_empty() {
            let ids: Vec<EffectId> = rest.iter().map(|it| it.event.id).collect();
            outbox::give_back(self.runtime.cell.every(), self.session, &ids).await?;
        }
        Ok(taken.len() - rest.len())
    }

    /// Whether the namespaces are to have their next turn, or the process stops.
    fn is_over(&self) -> bool {
        let requested = &self.runtime.shutdown.requested;
        requested.is_cancelled() || self.begun.elapsed() >= self.lease.to_duration() / 6
    }

    /// Hands a few events over together, and settles each when it is through.
    async fn hand_over(&self, group: &[TakenEvent]) -> Result<(), ReadError> {
        let flows = self.runtime.find_flows(self.session, group).await?;
        let handing = group.iter().zip(flows);
        let mut handing: FuturesUnordered<_> = handing
            .map(|(taken, flows)| self.hand(taken, flows))
            .collect();
        let (through, mut settling) = mpsc::unbounded_channel();
        let hand = async move {
            while let Some(one) = handing.next().await {
                // The receiver lives until both are through: where settling failed, the lease frees what it left.
                through.send(one).ok();
            }
        };
        let settle = async {
            let mut together = Vec::new();
            while settling.recv_many(&mut together, TOGETHER).await > 0 {
                self.settle(std::mem::take(&mut together)).await?;
            }
            Ok(())
        };
        // Settling waits for a connection, which an event that is still handed over may have: both go on together.
        tokio::join!(hand, settle).1
    }

    async fn hand<'a>(
        &self,
        taken: &'a TakenEvent,
        flows: Option<FlowsOfEvent>,
    ) -> (&'a TakenEvent, Handed) {
        let handing = async {
            match flows {
                Some(flows) => self.runtime.hand_event(taken, flows).await,
                None => Handed {
                    has: Vec::new(),
                    is_answered: false,
                    left: self.runtime.relay(&taken.event).await.and_then(Result::err),
                },
            }
        };
        // A panic is that of one event: it must not keep the events behind it from being dispatched.
        let handed = AssertUnwindSafe(handing).catch_unwind().await;
        let handed = handed.unwrap_or_else(|_| Handed {
            has: Vec::new(),
            is_answered: false,
            left: Some(Unread::Damaged(PANICKED.to_owned())),
        });
        (taken, handed)
    }

    /// Removes the events that are through, and leaves the others.
    async fn settle(&self, together: Vec<(&TakenEvent, Handed)>) -> Result<(), ReadError> {
        let through = together.iter().filter(|(_, handed)| handed.left.is_none());
        let through: Vec<EffectId> = through.map(|(taken, _)| taken.event.id).collect();
        if !through.is_empty() {
            let cell = self.runtime.cell.every();
            let gone = outbox::settle(cell, self.session, &through).await?;
            self.runtime.metrics.events_dispatched.add(gone);
        }
        for (taken, handed) in together {
            if let Some(left) = handed.left {
                let (id, cell) = (taken.event.id, &self.runtime.cell);
                if !handed.has.is_empty() {
                    outbox::mark(cell.of(id), self.session, id, &handed.has).await?;
                }
                self.leave(taken, left, handed.is_answered).await?;
            }
        }
        Ok(())
    }

    async fn leave(
        &self,
        taken: &TakenEvent,
        left: Unread,
        is_answered: bool,
    ) -> Result<(), ReadError> {
        let (id, runtime) = (taken.event.id, self.runtime);
        let (cell, session) = (runtime.cell.of(id), self.session);
        let mut rest = OutboxRest {
            pause: pause_after(taken.tries),
            is_answered,
        };
        match left {
            Unread::Unavailable(reason) => {
                tracing::debug!(reason, event.id = %id, "an event could not be handed over yet");
                outbox::defer(cell, session, id, rest, false).await
            }
            Unread::Newer(what) => {
                runtime.metrics.events_unread.add_one();
                if taken.tries.is_power_of_two() {
                    tracing::warn!(what, event.id = %id, tries = taken.tries, "an event is left for a newer version");
                }
                outbox::defer(cell, session, id, rest, true).await
            }
            Unread::Damaged(_) | Unread::Inconsistent(_) => {
                runtime.metrics.events_unread.add_one();
                rest.pause = DAMAGED_PAUSE;
                if outbox::keep(cell, session, id, rest).await? {
                    tracing::error!(%left, event.id = %id, run.id = %taken.event.run, "an event cannot be read, and is kept");
                }
                Ok(())
            }
        }
    }
}

/// Half of each group are messages between runs while there are both, so that neither kind takes all of a batch's time.
fn mixed(taken: Vec<TakenEvent>) -> Vec<TakenEvent> {
    let (calls, events): (Vec<_>, Vec<_>) = taken
        .into_iter()
        .partition(|it| calls::is_message(&it.event));
    let (mut calls, mut events, mut all) = (calls.into_iter(), events.into_iter(), Vec::new());
    loop {
        let before = all.len();
        all.extend(calls.by_ref().take(TOGETHER / 2));
        all.extend(events.by_ref().take(TOGETHER / 2));
        if all.len() == before {
            return all;
        }
    }
}

/// The pause after so many tries.
fn pause_after(tries: u32) -> Span {
    let doublings = tries.saturating_sub(1).min(16);
    Span::from_secs((1_u64 << doublings).min(PAUSE_SECS_MAX))
}

impl Runtime {
    /// Hands an event to every receiver that has not got it.
    async fn hand_event(self: &Arc<Self>, taken: &TakenEvent, flows: FlowsOfEvent) -> Handed {
        let event = &taken.event;
        let payload = EventPayload::read(event);
        let asked = self.ask_flows(event, &payload, flows).await;
        let mut left = asked.left;
        let mut is_answered = taken.is_answered;
        if !is_answered {
            match self.answer_and_deliver(taken, &payload).await {
                Ok(()) => is_answered = true,
                Err(unread) => {
                    left = Some(match left {
                        Some(known) => known.sooner(unread),
                        None => unread,
                    });
                }
            }
        }
        Handed {
            has: asked.has,
            is_answered,
            left,
        }
    }

    /// Answers the waits for an event, and makes it due to the subscriptions.
    async fn answer_and_deliver(
        self: &Arc<Self>,
        taken: &TakenEvent,
        payload: &EventPayload,
    ) -> Result<(), Unread> {
        let event = &taken.event;
        let answered = self
            .answer_event_waits(event, payload, taken.tries > 1)
            .await;
        answered.map_err(|error| Unread::Unavailable(error.to_string()))?;
        let body = cloud_event(event, payload.data()).to_string();
        webhook_deliveries::insert(self.cell.of(event.id), event, &body).await?;
        Ok(())
    }
}

/// The event as the world sees it.
fn cloud_event(event: &OutboxEvent, data: &Value) -> Value {
    json!({
        "specversion": "1.0",
        "id": event.id.to_string(),
        "source": format!("/runs/{}", event.run),
        "type": event.event,
        "time": event.emitted_at.to_string(),
        "datacontenttype": "application/json",
        "data": data,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_before_the_next_try_doubles_up_to_a_minute() {
        let pauses = [1, 2, 3, 6, 7, 1_000].map(|tries| pause_after(tries).to_duration().as_secs());

        assert_eq!(pauses, [1, 2, 4, 32, 60, 60]);
    }
}
