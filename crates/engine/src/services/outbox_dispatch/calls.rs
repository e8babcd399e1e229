//! Relays calls between flows: the start, the end and the cancellation of a run that another
//! called.

mod again;

use std::sync::Arc;

use semel_model::event::Caller;
use semel_model::run::EndState;
use semel_model::{ClaimId, Fault, Key, KeySpace, Mismatch, RunId, TriggerKind};
use semel_store::outbox::OutboxEvent;
use semel_store::waits::Callback;
use semel_store::{ReadError, claims, queue, runs};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::call::{CANCEL, CallEnd, CallRequest, Cancelled, END, START};
use crate::ingest::callback::CallbackError;
use crate::ingest::{Inbound, IntakeError};
use crate::runtime::Runtime;
use crate::turn::parent_state::Unread;
use again::CalledRun;

/// What the names of messages between runs begin with.
const MESSAGES: &str = "semel.call.";

impl Runtime {
    /// Relays a message from one run to another; nothing where the event is no such message. One that this build does
    /// not know or cannot read has not arrived.
    pub(super) async fn relay(self: &Arc<Self>, event: &OutboxEvent) -> Option<Result<(), Unread>> {
        let relayed = match event.event.as_str() {
            START => self.relay_start(event).await,
            END => self.relay_end(event).await,
            CANCEL => self.relay_cancel(event).await,
            unknown if is_message(event) => Err(Unread::Newer(format!("the message `{unknown}`"))),
            _ => return None,
        };
        Some(relayed)
    }

    async fn relay_start(self: &Arc<Self>, event: &OutboxEvent) -> Result<(), Unread> {
        let asked: CallRequest = read(event)?;
        if let Some(caller) = asked.caller
            && self.has_ended(caller.run).await?
        {
            return Ok(());
        }
        let called = match &asked.again {
            Some(again) => {
                let resumed = self.resume_called(event, asked.claim, again).await;
                resumed.map_err(|error| Unread::Unavailable(error.to_string()))?
            }
            None => CalledRun::Missing,
        };
        let end = match called {
            CalledRun::Active => return self.cancel_if_abandoned(event, &asked).await,
            CalledRun::Ended(end) => end,
            CalledRun::Missing => match self.start_called(event.namespace_id, &asked).await {
                Ok(()) => return self.cancel_if_abandoned(event, &asked).await,
                Err(IntakeError::Unavailable(error)) => return Err(Unread::Unavailable(error)),
                // It is there, in words that another server may know.
                Err(IntakeError::UnknownFlow)
                    if self.catalogue.is_unread(event.namespace_id, &asked.flow) =>
                {
                    let what = format!("the live release of `{}`", asked.flow);
                    return Err(Unread::Newer(what));
                }
                Err(error) => {
                    let refused = Fault::permanent(error.code(), error.to_string());
                    tracing::warn!(run.id = %event.run, code = refused.code, "a call was refused");
                    let flow = asked.flow.as_str();
                    json!({ "run": flow, "state": EndState::Failed, "fault": refused })
                }
            },
        };
        match asked.caller {
            Some(caller) => self.answer_caller(event, caller, end).await,
            None => Ok(()),
        }
    }

    /// A caller that was cancelled while its call was relayed: the message of its cancellation may
    /// have found no run to cancel.
    async fn cancel_if_abandoned(
        self: &Arc<Self>,
        event: &OutboxEvent,
        asked: &CallRequest,
    ) -> Result<(), Unread> {
        match asked.caller {
            Some(caller) if self.has_ended(caller.run).await? => {
                self.cancel_called(event.namespace_id, asked.claim).await
            }
            _ => Ok(()),
        }
    }

    async fn has_ended(self: &Arc<Self>, run: RunId) -> Result<bool, ReadError> {
        let snapshot = runs::find_snapshot(self.cell.of(run), run).await?;
        Ok(snapshot.is_some_and(|snapshot| snapshot.state.is_ended()))
    }

    async fn start_called(
        self: &Arc<Self>,
        namespace_id: i32,
        asked: &CallRequest,
    ) -> Result<(), IntakeError> {
        let release = self.live_flow(namespace_id, &asked.flow).await?;
        let key = Key::new(asked.key.clone().into_bytes()).map_err(|_| IntakeError::NoKey)?;
        let payload = (asked.input.clone(), asked.input.to_string());
        let (kind, named) = (TriggerKind::Call, (KeySpace::Call, key));
        let inbound = Inbound {
            caller: asked.caller,
            ..Inbound::new(release, kind, named, payload, Mismatch::Accept)
        };
        self.receive(inbound).await.map(drop)
    }

    async fn relay_end(self: &Arc<Self>, event: &OutboxEvent) -> Result<(), Unread> {
        let ended: CallEnd = read(event)?;
        self.answer_caller(event, ended.caller, ended.end).await
    }

    /// Answers the wait of a caller. The answer names the message that brings it: a wait that opened
    /// again is not answered by a repeat of the message that answered it before.
    async fn answer_caller(
        self: &Arc<Self>,
        event: &OutboxEvent,
        caller: Caller,
        mut end: Value,
    ) -> Result<(), Unread> {
        if let Value::Object(end) = &mut end {
            end.insert("message".to_owned(), json!(event.id));
        }
        let text = end.to_string();
        let callback = Callback::of(caller.run, caller.wait, text);
        match self.answer(None, callback, end).await {
            Ok(_) | Err(CallbackError::Unknown | CallbackError::NotJson(_)) => Ok(()),
            Err(CallbackError::Unavailable(error)) => Err(Unread::Unavailable(error)),
        }
    }

    async fn relay_cancel(self: &Arc<Self>, event: &OutboxEvent) -> Result<(), Unread> {
        let cancelled: Cancelled = read(event)?;
        self.cancel_called(event.namespace_id, cancelled.claim)
            .await
    }

    async fn cancel_called(
        self: &Arc<Self>,
        namespace_id: i32,
        claim: ClaimId,
    ) -> Result<(), Unread> {
        let Some(called) = claims::find(self.cell.of(claim), claim).await? else {
            return Ok(());
        };
        queue::ask_cancel(self.cell.of(called.run), namespace_id, called.run).await?;
        self.signals.wake.notify_one();
        Ok(())
    }
}

/// Whether an event is a message between runs. The store takes those first.
pub(super) fn is_message(event: &OutboxEvent) -> bool {
    event.event.starts_with(MESSAGES)
}

/// Reads a message between runs.
fn read<T: DeserializeOwned>(event: &OutboxEvent) -> Result<T, Unread> {
    let what = format!("the message `{}`", event.event);
    serde_json::from_str(&event.data).map_err(|error| Unread::of_json(&what, &error))
}
