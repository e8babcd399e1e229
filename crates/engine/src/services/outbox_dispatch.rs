//! Outbox dispatch: events from the outbox to the flows that take them and to subscribed webhooks.
//!
//! An event committed with the run that emitted it. It is dispatched at least once: a server that
//! dies in the middle leaves the row, and another dispatches it again. Every receiver dedupes by the
//! event's identity: a flow by its claim, a subscription by the row of its delivery, a webhook by
//! the id that every attempt carries.
//!
//! ```text
//! outbox ──▶ a run of each flow that takes it ═╗
//!        └─▶ a delivery per subscription ══════╩══▶ removed from the outbox
//! ```
//!
//! An event that many waits are for becomes a broadcast, which is answered beside all this.
//!
//! `══▶` is the commit after the others. An event that a receiver cannot take now stays in the outbox
//! alone; one that is refused for good is recorded as refused and removed.

mod calls;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use semel_model::EffectId;
use semel_store::outbox::{self, OutboxEvent};
use semel_store::{ReadError, webhook_deliveries};
use serde_json::{Value, json};

use super::service::{HeldBy, Pace, PassError, Service};
use crate::ingest::IntakeError;
use crate::metrics::Metrics;
use crate::runtime::Runtime;
use calls::Relay;

/// Dispatches the events of the outbox.
pub(super) struct OutboxDispatch {
    runtime: Arc<Runtime>,
    pace: Pace,
    /// How many events are taken from the outbox in one go.
    batch_max: i64,
    /// How many of them are dispatched at the same time.
    concurrency: usize,
}

impl OutboxDispatch {
    pub(super) fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            pace: Pace::every(Duration::from_secs(1)),
            batch_max: 100,
            concurrency: 8,
        }
    }

    /// Dispatches every event that is in the outbox and that no other server dispatches.
    async fn dispatch_outbox(&self) -> Result<(), ReadError> {
        let runtime = &self.runtime;
        let mut dispatching = outbox::start_dispatching(&runtime.cell).await?;
        let mut last = None::<OutboxEvent>;
        loop {
            let batch = dispatching.take(last.as_ref(), self.batch_max).await?;
            let Some(newest) = batch.events.last().cloned() else {
                return Ok(());
            };
            // A flow that went live before an event committed takes it, whichever server made it live.
            runtime.catalogue.refresh().await?;
            let mut dispatched = Vec::with_capacity(batch.events.len());
            for events in batch.events.chunks(self.concurrency) {
                let together = events.iter().map(|event| runtime.dispatch(event));
                dispatched.extend(join_all(together).await.into_iter().flatten());
            }
            batch.remove(&dispatched).await?;
            let count = dispatched.len() as u64;
            runtime.metrics.events_dispatched.add(count);
            runtime.signals.deliveries_due.notify_one();
            last = Some(newest);
        }
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
        self.dispatch_outbox().await?;
        Ok(self.pace.interval)
    }

    async fn wake_up(&mut self) {
        self.runtime.signals.emitted.notified().await;
    }
}

impl Runtime {
    /// Passes an event to every receiver; nothing if one of them could not take it now.
    async fn dispatch(self: &Arc<Self>, event: &OutboxEvent) -> Option<EffectId> {
        match self.relay(event).await {
            Relay::Arrived => return Some(event.id),
            Relay::Later => return None,
            Relay::NotACall => {}
        }
        for release in self
            .catalogue
            .releases_for_event(event.namespace_id, &event.event)
        {
            match self.receive_event(release, event).await {
                Ok(_) => {}
                Err(IntakeError::Unavailable(error)) => {
                    tracing::debug!(error, event.id = %event.id, "an event could not be taken in yet");
                    return None;
                }
                // Refused for good: that is recorded, and it would be refused again.
                Err(error) => tracing::warn!(%error, event.id = %event.id, "an event was refused"),
            }
        }
        if let Err(error) = self.answer_event_waits(event).await {
            tracing::debug!(%error, event.id = %event.id, "a wait could not be answered yet");
            return None;
        }
        let body = cloud_event(event).to_string();
        match webhook_deliveries::insert(self.cell.of(event.id), event, &body).await {
            Ok(()) => Some(event.id),
            Err(error) => {
                tracing::debug!(%error, event.id = %event.id, "an event could not be made due yet");
                None
            }
        }
    }
}

/// The event as the world sees it.
fn cloud_event(event: &OutboxEvent) -> Value {
    let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
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
