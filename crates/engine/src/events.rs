//! Events on their way: from the outbox to the flows that take them and to subscribed webhooks.
//!
//! An event committed with the run that emitted it. Spreading it is at least once: a server that
//! dies in the middle leaves the row, and another spreads it again. Every receiver dedupes by the
//! event's identity: a flow by its claim, a subscription by the row of its delivery, a webhook by
//! the id that every attempt carries.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use semel_model::{Outcome, RetryPolicy, Span};
use semel_steps::Parcel;
use semel_store::outbox::{self, Event};
use semel_store::outgoing::{self, Due, Settled};
use semel_store::{ReadError, subscriptions};
use serde_json::{Value, json};

use crate::engine::{Engine, Inner, chance};
use crate::intake::IntakeError;

/// How often a server looks for events that another left behind.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How many events are spread in one go.
const SPREAD_MAX: i64 = 100;

/// How many deliveries are under way together.
const DELIVERIES_MAX: i64 = 32;

/// How long a server may take over one delivery before another tries it.
const DELIVERY_LEASE: Span = Span::from_const_secs(120);

/// How long one attempt at a delivery may take.
const DELIVERY_TIMEOUT: Span = Span::from_const_secs(30);

/// How a delivery that was not taken is tried again: for three days, as the sources that people
/// know do.
const DELIVERY_RETRY: RetryPolicy = RetryPolicy {
    attempts: 16,
    first: Span::from_const_secs(5),
    most: Span::from_const_secs(8 * 3_600),
    within: Span::from_const_secs(3 * 86_400),
};

/// Spreads events and delivers them for as long as the process lives.
pub(crate) async fn keep_spreading(inner: Arc<Inner>) {
    let engine = Engine {
        inner: inner.clone(),
    };
    loop {
        tokio::select! {
            () = inner.emitted.notified() => {}
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        if inner.stop.is_cancelled() {
            return;
        }
        if let Err(error) = engine.spread().await {
            tracing::debug!(%error, "events could not be spread yet");
        }
        if let Err(error) = deliver_due(&inner).await {
            tracing::debug!(%error, "deliveries could not be made yet");
        }
    }
}

impl Engine {
    /// Spreads every event that is in the outbox.
    async fn spread(&self) -> Result<(), ReadError> {
        loop {
            let events = outbox::list_oldest(self.cell(), SPREAD_MAX).await?;
            let mut through = Vec::with_capacity(events.len());
            for event in &events {
                if self.spread_one(event).await? {
                    through.push(event.id);
                }
            }
            outbox::remove(self.cell(), &through).await?;
            if through.len() < usize::try_from(SPREAD_MAX).unwrap_or(usize::MAX) {
                return Ok(());
            }
        }
    }

    /// Hands an event to everybody who takes it; false where somebody could not take it now.
    async fn spread_one(&self, event: &Event) -> Result<bool, ReadError> {
        let inner = &self.inner;
        for release in inner.catalogue.listeners(event.namespace_id, &event.event) {
            match self.receive_event(release, event).await {
                Ok(_) => {}
                Err(IntakeError::Unavailable(error)) => {
                    tracing::debug!(error, event.id = %event.id, "an event could not be taken in yet");
                    return Ok(false);
                }
                // Refused for good: it is on record, and would be refused again.
                Err(error) => tracing::warn!(%error, event.id = %event.id, "an event was refused"),
            }
        }
        for subscription in subscriptions::list(&inner.cell, event.namespace_id).await? {
            if takes(&subscription.event, &event.event)
                && subscription.created_at <= event.emitted_at
            {
                let body = cloud_event(event).to_string();
                outgoing::insert(&inner.cell, event, &subscription, &body).await?;
            }
        }
        Ok(true)
    }
}

/// Whether a subscription to `wanted` takes `event`. A trailing `.*` takes all that begin so.
fn takes(wanted: &str, event: &str) -> bool {
    match wanted.strip_suffix('*') {
        Some(head) => event.starts_with(head),
        None => wanted == event,
    }
}

/// The event as the world sees it.
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

async fn deliver_due(inner: &Arc<Inner>) -> Result<(), ReadError> {
    let due = outgoing::take_due(&inner.cell, DELIVERIES_MAX, DELIVERY_LEASE).await?;
    let mut under_way = tokio::task::JoinSet::new();
    for delivery in due {
        let inner = inner.clone();
        under_way.spawn(async move {
            let settled = attempt(&inner, &delivery).await;
            let kept = outgoing::settle(&inner.cell, &delivery, &settled).await;
            if let Err(error) = kept {
                tracing::debug!(%error, "what became of a delivery could not be written down");
            }
        });
    }
    while under_way.join_next().await.is_some() {}
    Ok(())
}

/// Makes one attempt at a delivery, under the event's own id.
async fn attempt(inner: &Inner, delivery: &Due) -> Settled {
    let linked = inner.vault.linked(delivery.namespace_id);
    let Some(to) = linked.find(&delivery.connection) else {
        return again(delivery, inner.clock.now(), "its connection is not there");
    };
    let parcel = Parcel {
        body: &delivery.body,
        content_type: "application/cloudevents+json",
        timeout: DELIVERY_TIMEOUT,
    };
    let tenure = inner.tenure();
    let outcome = Box::pin(tenure.executors.deliver(parcel, to, delivery.event)).await;
    match outcome {
        Outcome::Done(_) => Settled::Delivered,
        // For good: the receiver says that it is gone, or there is no webhook.
        Outcome::Failed(fault)
            if matches!(fault.code.as_str(), "http-410" | "connection-unfit") =>
        {
            Settled::GivenUp(fault.message)
        }
        Outcome::Failed(fault) => again(delivery, inner.clock.now(), &fault.message),
        // The same id again: the receiver dedupes by it.
        Outcome::InDoubt(doubt) => again(delivery, inner.clock.now(), &doubt.message),
    }
}

fn again(delivery: &Due, now: Timestamp, why: &str) -> Settled {
    let attempt = u32::try_from(delivery.attempt).unwrap_or(u32::MAX);
    let passed = crate::settle::span_between(delivery.emitted_at, now);
    match DELIVERY_RETRY.delay(attempt, passed, chance(), None) {
        Some(delay) => Settled::Again {
            at: now + delay.to_duration(),
            note: why.to_owned(),
        },
        None => Settled::GivenUp(why.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscription_takes_its_event_or_all_that_begin_alike() {
        assert!(takes("order.paid", "order.paid"));
        assert!(!takes("order.paid", "order.paid.late"));
        assert!(takes("order.*", "order.paid"));
        assert!(!takes("order.*", "orders"));
        assert!(takes("*", "anything"));
    }
}
