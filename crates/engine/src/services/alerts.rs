//! Alerts: counts what people must learn of, and sends messages about it.
//!
//! ```text
//! events ══▶ groups ══▶ message ══▶ taken ──▶ sent ══▶ done | failed | in doubt
//! ```
//!
//! `══▶` is a commit. Any server does any part of it, each once: rows are locked while they change,
//! and rows that another server has locked are passed over. A message is an effect like any other: it
//! is written before it is sent, and every attempt carries the same key. A server that dies while it
//! sends leaves it `sending`. The next one sends it again only where the destination recognises the
//! key; anywhere else it is in doubt, and its count goes into the next message of the group.

mod text;

use std::sync::Arc;
use std::time::Duration;

use semel_model::connection::Target;
use semel_model::request::{ExternalRequest, Message};
use semel_model::{Guard, Outcome, Span};
use semel_steps::Destination;
use semel_steps::executor::{Attempt, Route};
use semel_steps::failpoint::failpoint;
use semel_store::ReadError;
use semel_store::alerts::{self, AlertMessage, AlertOutcome};
use tokio::task::JoinSet;

pub(crate) use text::test_text;

use super::service::{HeldBy, Pace, PassError, Service};
use crate::metrics::Metrics;
use crate::runtime::Runtime;

/// How long the destination of a message may take.
const MESSAGE_TIMEOUT: Span = Span::from_const_secs(20);

/// How long a server may take over one message before another one takes it.
pub(crate) const MESSAGE_LEASE: Span = Span::from_const_secs(60);

/// How often a message is taken from servers that died over it before it is in doubt.
const TAKES_MAX: i32 = 3;

/// How many messages a process sends at the same time.
const TOGETHER: usize = 8;

/// In how many passes bursts of duplicates are looked for, and undelivered alerts counted, once.
const SELDOM: u32 = 5;

/// Sends messages about what people must learn of.
pub(super) struct Alerts {
    runtime: Arc<Runtime>,
    pace: Pace,
    passes: u32,
    sending: JoinSet<()>,
}

impl Alerts {
    pub(super) fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            pace: Pace::every(Duration::from_secs(1)),
            passes: 0,
            sending: JoinSet::new(),
        }
    }

    /// Counts events in their groups, and writes the messages that are due.
    async fn count(&self, open: alerts::OpenWork) -> Result<bool, ReadError> {
        let cell = &self.runtime.cell;
        while open.events && alerts::fold(cell.home()).await? {}
        if !open.groups {
            return Ok(false);
        }
        let intended = alerts::intend(cell.home(), text::of).await?;
        for one in &intended {
            failpoint("alert.intended", &one.group.flow).await;
        }
        Ok(!intended.is_empty())
    }

    async fn send_due(&mut self) -> Result<(), ReadError> {
        let room = TOGETHER.saturating_sub(self.sending.len());
        let room = i64::try_from(room).unwrap_or_default();
        if room == 0 {
            return Ok(());
        }
        let cell = &self.runtime.cell;
        for message in alerts::take_due(cell.home(), room, MESSAGE_LEASE).await? {
            let runtime = self.runtime.clone();
            self.sending.spawn(async move {
                let outcome = runtime.send_alert(&message).await;
                if let Err(error) = runtime.settle_alert(&message, &outcome).await {
                    // Settled by the server that takes it when its lease is over.
                    tracing::debug!(%error, "failed to record the outcome of an alert");
                }
            });
        }
        Ok(())
    }

    async fn look_seldom(&mut self) -> Result<(), ReadError> {
        self.passes = self.passes.wrapping_add(1);
        if self.passes % SELDOM != 1 {
            return Ok(());
        }
        let cell = &self.runtime.cell;
        alerts::count_bursts(cell.home()).await?;
        let failing = alerts::count_failing(cell.home()).await?;
        self.runtime.metrics.alerts_failing.set(failing);
        Ok(())
    }
}

impl Service for Alerts {
    const NAME: &'static str = "alerts";
    const HELD_BY: HeldBy = HeldBy::Holders(1);

    fn metrics(&self) -> &Metrics {
        &self.runtime.metrics
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    async fn pass(&mut self) -> Result<Duration, PassError> {
        while self.sending.try_join_next().is_some() {}
        self.look_seldom().await?;
        let open = alerts::look(self.runtime.cell.home()).await?;
        let intended = match open.events || open.groups {
            true => self.count(open).await?,
            false => false,
        };
        if intended || open.messages {
            self.send_due().await?;
        }
        Ok(self.pace.interval)
    }

    fn hand_over(&mut self) {
        self.runtime.metrics.alerts_failing.set(0);
    }

    async fn finish(&mut self) {
        while self.sending.join_next().await.is_some() {}
    }
}

impl Runtime {
    /// Makes one attempt at a message, which is recorded as being sent.
    pub(crate) async fn send_alert(&self, message: &AlertMessage) -> AlertOutcome {
        let AlertMessage { group, text, .. } = message;
        tracing::warn!(
            flow = group.flow,
            step = group.step,
            "alert: {}",
            text.subject
        );
        let Some(connection) = &message.destination else {
            return AlertOutcome::Done;
        };
        let found = self.find_destination(group.namespace_id, connection).await;
        let to = found.as_deref();
        if let Some(lost) = lost_before(message, to) {
            return lost;
        }
        let request = ExternalRequest::Notify(Message {
            connection: connection.clone(),
            to: message.recipients.clone(),
            subject: Some(text.subject.clone()),
            text: text.body.clone(),
            html: None,
            timeout: to
                .and_then(|to| to.connection.timeout)
                .map_or(MESSAGE_TIMEOUT, |most| most.min(MESSAGE_TIMEOUT)),
        });
        let route = Route {
            namespace_id: group.namespace_id,
            to,
            origin: None,
        };
        let attempt = Attempt {
            request: &request,
            route,
            key: message.key,
            guard: Guard::Review,
        };
        let outcome = self.session().executors.perform(attempt).await;
        failpoint("alert.sent", &group.flow).await;
        match outcome {
            Outcome::Done(_) => AlertOutcome::Done,
            Outcome::Failed(fault) => AlertOutcome::Failed(text::plain(&fault.message)),
            Outcome::InDoubt(doubt) => AlertOutcome::InDoubt(text::plain(&doubt.message)),
        }
    }

    /// Records the outcome of a message. What was not delivered raises no alert: it is counted.
    pub(crate) async fn settle_alert(
        &self,
        message: &AlertMessage,
        outcome: &AlertOutcome,
    ) -> Result<(), ReadError> {
        let metrics = &self.metrics;
        match outcome {
            AlertOutcome::Done => metrics.alerts_sent.add_one(),
            AlertOutcome::Failed(_) | AlertOutcome::InDoubt(_) => {
                metrics.alerts_undelivered.add_one();
                tracing::warn!(alert.key = %message.key, "an alert was not delivered");
            }
        }
        alerts::settle(self.cell.home(), message, outcome).await
    }
}

/// The outcome of a message that a server had in hand when it died, unless the destination recognises
/// the key of a second attempt.
fn lost_before(message: &AlertMessage, to: Option<&Destination>) -> Option<AlertOutcome> {
    let recognises = to.is_some_and(|to| matches!(to.connection.to, Target::Webhook(_)));
    let again = message.attempt > 1;
    (again && (!recognises || message.attempt > TAKES_MAX)).then(|| {
        let note = "the server that sent it was lost before the outcome was recorded";
        AlertOutcome::InDoubt(note.to_owned())
    })
}
