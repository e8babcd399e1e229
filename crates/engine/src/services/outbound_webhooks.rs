//! Outbound webhooks: delivers events to subscribed webhooks, each until it is taken or given up.
//!
//! Attempts are tasks of their own, a few for each subscription: a slow receiver delays the
//! attempts at its own deliveries and nothing else. Where there is less room than there are
//! subscriptions, the one that was served least recently is next.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use semel_model::{FaultKind, Outcome, RetryPolicy, Span};
use semel_steps::WebhookPayload;
use semel_store::ReadError;
use semel_store::webhook_deliveries::{self, DeliveryCapacity, DeliveryResult, DueDelivery};
use tokio::task::JoinSet;

use super::service::{HeldBy, Pace, PassError, Service};
use crate::metrics::Metrics;
use crate::runtime::{Runtime, jitter};
use crate::settle::span_between;

/// How long one attempt at a delivery may take.
const DELIVERY_TIMEOUT: Span = Span::from_const_secs(30);

/// How a delivery that was not taken is retried: for three days, as well-known webhook senders do.
/// The time ends it, and not the count.
const DELIVERY_RETRY: RetryPolicy = RetryPolicy {
    attempts: 100,
    delay: Span::from_const_secs(5),
    max_delay: Span::from_const_secs(8 * 3_600),
    within: Span::from_const_secs(3 * 86_400),
};

/// How many subscriptions are remembered for when they were served.
const LINES_MAX: usize = 10_000;

/// The namespace and the name of a subscription.
type Line = (i32, String);

/// How many attempts run for each subscription, and when each was served.
#[derive(Default)]
struct Lines {
    by_name: BTreeMap<Line, QueueLoad>,
    takes: i64,
}

#[derive(Clone, Copy, Default)]
struct QueueLoad {
    busy: i64,
    served: i64,
}

impl Lines {
    /// Notes that deliveries are taken once more.
    fn take(&mut self) {
        self.takes += 1;
    }

    fn begin(&mut self, line: Line) {
        let load = self.by_name.entry(line).or_default();
        load.busy += 1;
        load.served = self.takes;
    }

    fn end(&mut self, line: Option<Line>) {
        // A task that panicked does not say whose it was: the lines are counted anew as they empty.
        let Some(line) = line else {
            return self.by_name.values_mut().for_each(|it| it.busy = 0);
        };
        if let Some(load) = self.by_name.get_mut(&line) {
            load.busy = (load.busy - 1).max(0);
        }
        if self.by_name.len() > LINES_MAX {
            // Dropped lines count as never served, which does not harm the others.
            self.by_name.retain(|_, load| load.busy > 0);
        }
    }

    fn list(&self) -> Vec<webhook_deliveries::SubscriptionLoad> {
        let lines = self.by_name.iter();
        lines
            .map(
                |((namespace_id, subscription), load)| webhook_deliveries::SubscriptionLoad {
                    namespace_id: *namespace_id,
                    subscription: subscription.clone(),
                    busy: load.busy,
                    served: load.served,
                },
            )
            .collect()
    }
}

/// Delivers events to subscribed webhooks.
pub(super) struct OutboundWebhooks {
    runtime: Arc<Runtime>,
    pace: Pace,
    /// How many attempts the process makes at the same time.
    attempts_max: usize,
    /// How many of them may go to one subscription.
    attempts_each_max: i64,
    /// How long a server may take over one delivery before another tries it.
    lease: Span,
    lines: Lines,
    attempts: JoinSet<Line>,
}

impl OutboundWebhooks {
    pub(super) fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            pace: Pace::every(Duration::from_secs(1)),
            attempts_max: 128,
            attempts_each_max: 4,
            lease: Span::from_const_secs(120),
            lines: Lines::default(),
            attempts: JoinSet::new(),
        }
    }

    /// Starts as many attempts as there is room for.
    async fn start_attempts(&mut self) -> Result<(), ReadError> {
        let left = self.attempts_max.saturating_sub(self.attempts.len());
        if left == 0 {
            return Ok(());
        }
        let room = DeliveryCapacity {
            total: i64::try_from(left).unwrap_or(i64::MAX),
            each: self.attempts_each_max,
            lines: self.lines.list(),
        };
        self.lines.take();
        let cell = &self.runtime.cell;
        for delivery in webhook_deliveries::take_due(cell, &room, self.lease).await? {
            let line = (delivery.namespace_id, delivery.subscription.clone());
            self.lines.begin(line.clone());
            let runtime = self.runtime.clone();
            self.attempts.spawn(async move {
                deliver(&runtime, &delivery).await;
                line
            });
        }
        Ok(())
    }
}

impl Service for OutboundWebhooks {
    const NAME: &'static str = "outbound_webhooks";
    const HELD_BY: HeldBy = HeldBy::Holders(3);

    fn metrics(&self) -> &Metrics {
        &self.runtime.metrics
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    async fn pass(&mut self) -> Result<Duration, PassError> {
        while let Some(ended) = self.attempts.try_join_next() {
            self.lines.end(ended.ok());
        }
        self.start_attempts().await?;
        Ok(self.pace.interval)
    }

    /// Events were dispatched, or there is room for another attempt.
    async fn wake_up(&mut self) {
        tokio::select! {
            () = self.runtime.signals.deliveries_due.notified() => {}
            Some(ended) = self.attempts.join_next() => self.lines.end(ended.ok()),
        }
    }

    async fn finish(&mut self) {
        while self.attempts.join_next().await.is_some() {}
    }
}

async fn deliver(runtime: &Runtime, delivery: &DueDelivery) {
    let settled = attempt(runtime, delivery).await;
    match &settled {
        DeliveryResult::Delivered => runtime.metrics.deliveries_made.add_one(),
        DeliveryResult::Failed(_) => {
            runtime.metrics.deliveries_failed.add_one();
            let subscription = &delivery.subscription;
            tracing::warn!(event.id = %delivery.event, subscription, "stopped retrying a webhook delivery");
        }
        DeliveryResult::Again { .. } => {}
    }
    if let Err(error) =
        webhook_deliveries::settle(runtime.cell.of(delivery.event), delivery, &settled).await
    {
        // Tried again when its lease is over, under the same id.
        tracing::debug!(%error, "failed to record the outcome of a delivery");
    }
}

/// Makes one attempt at a delivery, under the event's own id.
async fn attempt(runtime: &Runtime, delivery: &DueDelivery) -> DeliveryResult {
    let connection = &delivery.connection;
    let found = runtime
        .find_destination(delivery.namespace_id, connection)
        .await;
    let Some(to) = found.as_ref() else {
        let note = format!("there is no connection `{}`", delivery.connection);
        return again(delivery, runtime.clock.now(), note, None);
    };
    let payload = WebhookPayload {
        body: &delivery.body,
        content_type: "application/cloudevents+json",
        timeout: DELIVERY_TIMEOUT,
    };
    let session = runtime.session();
    let outcome = Box::pin(session.executors.deliver(payload, to, delivery.event)).await;
    match outcome {
        Outcome::Done(_) => DeliveryResult::Delivered,
        // Final: the receiver says that it is gone, or there is no webhook.
        Outcome::Failed(fault) if matches!(fault.kind, FaultKind::Http(410) | FaultKind::Unfit) => {
            DeliveryResult::Failed(fault.message)
        }
        Outcome::Failed(fault) => {
            let asked = fault.retry_after;
            again(delivery, runtime.clock.now(), fault.message, asked)
        }
        // The same id again: the receiver deduplicates by it.
        Outcome::InDoubt(doubt) => again(delivery, runtime.clock.now(), doubt.message, None),
    }
}

fn again(
    delivery: &DueDelivery,
    now: Timestamp,
    note: String,
    asked: Option<Span>,
) -> DeliveryResult {
    let attempt = u32::try_from(delivery.attempt).unwrap_or(u32::MAX);
    let passed = span_between(delivery.since, now);
    match DELIVERY_RETRY.delay(attempt, passed, jitter(), asked) {
        Some(delay) => DeliveryResult::Again {
            at: now + delay.to_duration(),
            note,
        },
        None => DeliveryResult::Failed(note),
    }
}

#[cfg(test)]
mod tests {
    use semel_model::EffectId;
    use uuid::Uuid;

    use super::*;

    fn due(attempt: i32, since: Timestamp) -> DueDelivery {
        DueDelivery {
            event: EffectId::from_uuid(Uuid::nil()),
            namespace_id: 1,
            subscription: "erp".to_owned(),
            connection: "hook".to_owned(),
            body: "{}".to_owned(),
            attempt,
            since,
        }
    }

    #[test]
    fn a_delivery_is_tried_for_three_days_and_then_failed() {
        let since = Timestamp::UNIX_EPOCH;
        let late = since + Span::from_secs(3 * 86_400).to_duration();

        let soon = again(&due(1, since), since, "500".to_owned(), None);
        let after = again(&due(20, since), late, "500".to_owned(), None);

        assert!(matches!(soon, DeliveryResult::Again { .. }), "{soon:?}");
        assert!(matches!(after, DeliveryResult::Failed(_)), "{after:?}");
    }

    #[test]
    fn a_receiver_s_retry_after_is_honoured() {
        let now = Timestamp::UNIX_EPOCH;
        let asked = Span::from_secs(600);

        let settled = again(&due(1, now), now, "429".to_owned(), Some(asked));

        let DeliveryResult::Again { at, .. } = settled else {
            panic!("{settled:?}")
        };
        assert!(at >= now + asked.to_duration());
    }
}
