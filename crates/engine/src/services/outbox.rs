//! Dispatches events from the outbox to the flows that take them and to subscribed webhooks.
//!
//! An event committed with the run that emitted it. It is dispatched at least once: a server that
//! crashes in the middle leaves the row, and another dispatches it again. Every receiver
//! deduplicates by the event's identity: a flow by its claim, a subscription by the row of its
//! delivery, a webhook by the id that every attempt carries.
//!
//! ```text
//! outbox ──▶ a run of each flow that takes it ═╗
//!        └─▶ a delivery per subscription ══════╩══▶ removed from the outbox
//! ```
//!
//! An event that many runs wait for becomes a broadcast, which a task of its own handles.
//!
//! `══▶` is the commit after the others. An event whose receiver cannot take it now stays in the
//! outbox and delays no other; one that is refused for good is recorded and removed.

mod calls;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use semel_model::EffectId;
use semel_store::outbox::{self, Event};
use semel_store::{ReadError, webhook_deliveries};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::webhooks;
use crate::ingest::IntakeError;
use crate::runtime::Runtime;
use calls::Told;

/// How often a server looks for events and deliveries that another left behind.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How many events are taken from the outbox in one go.
const SPREAD_MAX: i64 = 100;

/// How many of them are dispatched together.
const SPREAD_TOGETHER: usize = 8;

/// Dispatches events and delivers them for as long as the process lives.
pub(crate) async fn keep_spreading(runtime: Arc<Runtime>) {
    let due = Notify::new();
    tokio::join!(
        spread_on(&runtime, &due),
        broadcast_on(&runtime),
        webhooks::deliver_on(&runtime, &due)
    );
}

async fn broadcast_on(runtime: &Arc<Runtime>) {
    loop {
        tokio::select! {
            () = runtime.shutdown.requested.cancelled() => return,
            () = runtime.signals.broadcast.notified() => {}
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        if let Err(error) = runtime.broadcast().await {
            tracing::debug!(error, "failed to complete event waits; retrying");
        }
    }
}

async fn spread_on(runtime: &Arc<Runtime>, due: &Notify) {
    loop {
        tokio::select! {
            () = runtime.shutdown.requested.cancelled() => return,
            () = runtime.signals.emitted.notified() => {}
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        if let Err(error) = runtime.spread(due).await {
            tracing::debug!(%error, "failed to dispatch events; retrying");
        }
    }
}

impl Runtime {
    /// Dispatches every event that is in the outbox and that no other server dispatches.
    async fn spread(self: &Arc<Self>, due: &Notify) -> Result<(), ReadError> {
        let mut spreading = outbox::start_spreading(&self.cell).await?;
        let mut last = None::<Event>;
        loop {
            let batch = spreading.take(last.as_ref(), SPREAD_MAX).await?;
            let Some(newest) = batch.events.last().cloned() else {
                return Ok(());
            };
            // A flow that went live before an event committed takes it, whichever server made it
            // live.
            self.catalogue.refresh().await?;
            let mut through = Vec::with_capacity(batch.events.len());
            for events in batch.events.chunks(SPREAD_TOGETHER) {
                let mut together = Vec::with_capacity(events.len());
                for event in events {
                    together.push(self.spread_one(event));
                }
                through.extend(join_all(together).await.into_iter().flatten());
            }
            batch.remove(&through).await?;
            self.metrics.events_dispatched.add(through.len() as u64);
            due.notify_one();
            last = Some(newest);
        }
    }

    /// Dispatches an event to all its receivers; nothing where one could not take it now.
    async fn spread_one(self: &Arc<Self>, event: &Event) -> Option<EffectId> {
        match self.carry(event).await {
            Told::Through => return Some(event.id),
            Told::NotYet => return None,
            Told::Event => {}
        }
        for release in self.catalogue.listeners(event.namespace_id, &event.event) {
            match self.receive_event(release, event).await {
                Ok(_) => {}
                Err(IntakeError::Unavailable(error)) => {
                    tracing::debug!(error, event.id = %event.id, "failed to accept an event; retrying");
                    return None;
                }
                // Refused for good: the refusal is recorded, and a retry would be refused again.
                Err(error) => tracing::warn!(%error, event.id = %event.id, "an event was refused"),
            }
        }
        if let Err(error) = self.answer_listeners(event).await {
            tracing::debug!(error, event.id = %event.id, "failed to complete a wait; retrying");
            return None;
        }
        let body = cloud_event(event).to_string();
        match webhook_deliveries::insert(self.cell.of(event.id), event, &body).await {
            Ok(()) => Some(event.id),
            Err(error) => {
                tracing::debug!(%error, event.id = %event.id, "failed to make the deliveries of an event due; retrying");
                None
            }
        }
    }
}

/// The event as receivers get it.
fn cloud_event(event: &Event) -> Value {
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
