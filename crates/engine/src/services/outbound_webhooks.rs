//! Outbound webhooks: delivers events to subscribed webhooks, each until it is taken or given up.
//!
//! Attempts are tasks of their own, a few for each subscription: a slow receiver delays the
//! attempts at its own deliveries and nothing else. Where there is less room than there are
//! subscriptions, the one that was served least recently is next, of the namespaces in turn. One
//! namespace never has all the room.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use semel_model::{FaultKind, Outcome, RetryPolicy, Span};
use semel_steps::WebhookPayload;
use semel_store::ReadError;
use semel_store::webhook_deliveries::{
    self, DeliveryCapacity, DeliveryResult, DueDelivery, NamespaceLoad, SubscriptionLoad,
};
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

/// How many subscriptions, and how many namespaces, are remembered for when they were served.
const LOADS_MAX: usize = 10_000;

/// The namespace and the name of a subscription.
type Line = (i32, String);

/// How many attempts run for each subscription and each namespace, and when each was served.
#[derive(Default)]
struct Lines {
    by_name: Loads<Line>,
    by_namespace: Loads<i32>,
    takes: i64,
}

#[derive(Clone, Copy, Default)]
struct QueueLoad {
    busy: i64,
    served: i64,
}

struct Loads<K>(BTreeMap<K, QueueLoad>);

impl<K> Default for Loads<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> Loads<K> {
    fn begin(&mut self, key: K, take: i64) {
        let load = self.0.entry(key).or_default();
        load.busy += 1;
        load.served = take;
        if self.0.len() > LOADS_MAX {
            self.forget_oldest();
        }
    }

    /// What is forgotten counts as never served and is next: so are those that were served least recently.
    fn forget_oldest(&mut self) {
        let mut served: Vec<i64> = self.0.values().map(|load| load.served).collect();
        served.sort_unstable();
        let middle = served[served.len() / 2];
        self.0
            .retain(|_, load| load.busy > 0 || load.served >= middle);
    }

    fn end(&mut self, key: &K) {
        if let Some(load) = self.0.get_mut(key) {
            load.busy = (load.busy - 1).max(0);
        }
    }

    fn end_all(&mut self) {
        self.0.values_mut().for_each(|load| load.busy = 0);
    }
}

impl Lines {
    /// Notes that deliveries are taken once more.
    fn take(&mut self) {
        self.takes += 1;
    }

    fn begin(&mut self, line: Line) {
        self.by_namespace.begin(line.0, self.takes);
        self.by_name.begin(line, self.takes);
    }

    fn end(&mut self, line: Option<Line>) {
        match line {
            Some(line) => {
                self.by_namespace.end(&line.0);
                self.by_name.end(&line);
            }
            // A task that panicked does not say whose it was: the lines are counted anew as they empty.
            None => {
                self.by_namespace.end_all();
                self.by_name.end_all();
            }
        }
    }

    fn list(&self) -> Vec<SubscriptionLoad> {
        let lines = self.by_name.0.iter();
        lines
            .map(|((namespace_id, subscription), load)| SubscriptionLoad {
                namespace_id: *namespace_id,
                subscription: subscription.clone(),
                busy: load.busy,
                served: load.served,
            })
            .collect()
    }

    fn list_namespaces(&self) -> Vec<NamespaceLoad> {
        let namespaces = self.by_namespace.0.iter();
        namespaces
            .map(|(namespace_id, load)| NamespaceLoad {
                namespace_id: *namespace_id,
                busy: load.busy,
                served: load.served,
            })
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
    /// How many of them may be of one namespace: an eighth is left to the others.
    attempts_namespace_max: i64,
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
            attempts_namespace_max: 112,
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
            each_namespace: self.attempts_namespace_max,
            lines: self.lines.list(),
            namespaces: self.lines.list_namespaces(),
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
    fn of_more_lines_than_are_remembered_the_order_is_kept() {
        let mut lines = Lines::default();
        let line = |number: usize| (1, format!("line-{number:05}"));
        for number in 0..LOADS_MAX {
            lines.take();
            lines.begin(line(number));
            if number > 0 {
                lines.end(Some(line(number)));
            }
        }

        lines.take();
        lines.begin(line(LOADS_MAX));

        let kept: Vec<String> = lines.list().into_iter().map(|it| it.subscription).collect();
        assert_eq!(kept[0], "line-00000", "an attempt at it is under way");
        let latest: Vec<String> = (LOADS_MAX / 2..=LOADS_MAX).map(|it| line(it).1).collect();
        assert_eq!(kept[1..], latest, "those that were served last");
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
