//! What a rehearsal asks of its own engine. Where the process serves, deliveries and callbacks are refused,
//! and its clock is not moved.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use semel_model::{EffectId, FlowName, Key, NamespaceName, RunId, SessionId, TriggerKind};
use semel_store::ReadError;
use semel_store::outbox::OutboxEvent;
use semel_store::rehearsals::{self, Pulse};

use crate::address::{Comer, address};
use crate::ingest::callback::{CallbackError, Called};
use crate::ingest::{Authentic, Intake, IntakeError, Start, WebhookRequest};
use crate::runtime::Runtime;

/// One delivery of a rehearsal, which no source has signed.
#[derive(Clone, Debug)]
pub struct StagedDelivery {
    /// The namespace, short.
    pub namespace_id: i32,
    /// The namespace.
    pub namespace: NamespaceName,
    /// The flow.
    pub flow: FlowName,
    /// What starts the run.
    pub trigger: TriggerKind,
    /// The payload, as JSON text.
    pub input: Vec<u8>,
    /// The headers, with lower-case names.
    pub headers: Vec<(String, String)>,
    /// The query parameters.
    pub query: Vec<(String, String)>,
    /// The key that a caller gives, where the trigger computes none.
    pub caller_key: Key,
    /// The instant, where a schedule starts the run.
    pub nominal: Timestamp,
}

impl Runtime {
    /// Accepts a delivery of a rehearsal, without asking for a signature.
    ///
    /// # Errors
    ///
    /// As every delivery; and where this process serves.
    pub async fn deliver_staged(
        self: &Arc<Self>,
        delivery: StagedDelivery,
    ) -> Result<Intake, IntakeError> {
        if self.rehearsal.is_none() {
            return Err(IntakeError::SignatureInvalid);
        }
        let release = self
            .live_flow(delivery.namespace_id, &delivery.flow)
            .await?;
        let kind = delivery.trigger;
        match kind {
            TriggerKind::Webhook => {
                let arrival = WebhookRequest {
                    namespace: delivery.namespace.to_string(),
                    path: String::new(),
                    target: String::new(),
                    body: delivery.input,
                    headers: delivery.headers,
                    query: delivery.query,
                };
                let staged = Authentic::on_stage(self, release, arrival);
                self.deliver(staged.ok_or(IntakeError::SignatureInvalid)?)
                    .await
            }
            TriggerKind::Api | TriggerKind::Manual => {
                let declared = release.flow.trigger.start(kind);
                let names_itself = declared.is_some_and(|declared| declared.key.is_some());
                let given = Some(delivery.caller_key);
                self.start_run(Start {
                    namespace_id: delivery.namespace_id,
                    namespace: delivery.namespace,
                    flow: delivery.flow,
                    trigger: kind,
                    input: delivery.input,
                    key: given.filter(|_| !names_itself),
                    by: None,
                })
                .await
            }
            TriggerKind::Schedule => self.receive_instant(release, delivery.nominal, None).await,
            TriggerKind::Event => {
                let event = self.staged_event(&delivery);
                self.receive_event(release, &event).await
            }
            TriggerKind::Call | TriggerKind::Reconcile => Err(IntakeError::NoTrigger { kind }),
        }
    }

    /// An event of the rehearsal's own: the same for every delivery of one payload.
    fn staged_event(&self, delivery: &StagedDelivery) -> OutboxEvent {
        let run = RunId::from_uuid(uuid::Uuid::nil());
        let text = String::from_utf8_lossy(&delivery.input).into_owned();
        OutboxEvent {
            id: EffectId::derive(run, &text, "", 0),
            namespace_id: delivery.namespace_id,
            run,
            event: String::new(),
            data: text,
            emitted_at: self.clock.now(),
        }
    }

    /// Answers the wait of a run's step, as a request to the wait's address does. The run need not
    /// have come there.
    ///
    /// # Errors
    ///
    /// As every callback.
    pub async fn call_back_staged(
        self: &Arc<Self>,
        run: RunId,
        step: &str,
        body: &[u8],
    ) -> Result<Called, CallbackError> {
        if self.rehearsal.is_none() {
            return Err(CallbackError::Unknown);
        }
        let comer = Comer {
            run,
            first: run,
            begins_in: None,
        };
        let address = address(&self.options, comer, step);
        let token = address.rsplit('/').next().unwrap_or_default();
        self.call_back(token, body).await
    }

    /// What there is to do in the rehearsal's schema.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    pub async fn take_pulse(self: &Arc<Self>) -> Result<Pulse, ReadError> {
        rehearsals::take_pulse(self.cell.every(), self.session().id).await
    }

    /// Reads flows and connections again: the rehearsal has added some.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    pub async fn reload(self: &Arc<Self>) -> Result<(), ReadError> {
        self.catalogue.refresh().await?;
        self.vault.refresh().await
    }

    /// How many runs and deliveries this process has in hand.
    pub fn count_in_hand(&self) -> usize {
        self.work.turns.len()
    }

    /// Moves the clock of the rehearsal's schema; the lease of this process is as long as before.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    pub async fn jump(self: &Arc<Self>, by: Duration) -> Result<(), ReadError> {
        self.move_clock(by, Some(self.session().id)).await
    }

    /// Moves the clock until the lease of this process is over.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    pub async fn outlast_lease(self: &Arc<Self>) -> Result<(), ReadError> {
        let by = self.options.lease.to_duration() + Duration::from_secs(1);
        self.move_clock(by, None).await
    }

    async fn move_clock(
        self: &Arc<Self>,
        by: Duration,
        keep: Option<SessionId>,
    ) -> Result<(), ReadError> {
        if self.rehearsal.is_some() {
            let now = rehearsals::jump(&self.cell, by, keep).await?;
            self.clock.set(now);
            self.signals.wake.notify_one();
        }
        Ok(())
    }
}
