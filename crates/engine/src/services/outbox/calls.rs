//! Carries calls between flows: the start, the end and the cancellation of a run that another
//! called.

mod again;

use std::sync::Arc;

use semel_model::event::Caller;
use semel_model::run::EndState;
use semel_model::{Fault, Fingerprint, Key, KeySpace, Mismatch, TriggerKind};
use semel_store::outbox::Event;
use semel_store::waits::Callback;
use semel_store::{ReadError, claims, queue};
use serde_json::{Value, json};

use crate::call::{Asked, CANCEL, Cancelled, END, Ended, START};
use crate::ingest::callback::CallbackError;
use crate::ingest::{Inbound, IntakeError};
use crate::runtime::Runtime;
use again::CalledRun;

/// The outcome of a message from one run to another.
pub(crate) enum Told {
    /// It has arrived, or never will.
    Through,
    /// It is sent again later.
    NotYet,
    /// It is not such a message, but an event like any other.
    Event,
}

impl Runtime {
    /// Carries a message from one run to another.
    pub(crate) async fn carry(self: &Arc<Self>, event: &Event) -> Told {
        let done = match event.event.as_str() {
            START => self.carry_start(event).await,
            END => self.carry_end(event).await,
            CANCEL => self.carry_cancel(event).await,
            _ => return Told::Event,
        };
        match done {
            Ok(()) => Told::Through,
            Err(error) => {
                tracing::debug!(error, event.id = %event.id, "failed to carry a message to a run; retrying");
                Told::NotYet
            }
        }
    }

    async fn carry_start(self: &Arc<Self>, event: &Event) -> Result<(), String> {
        let Ok(asked) = serde_json::from_str::<Asked>(&event.data) else {
            return Ok(());
        };
        let called = match &asked.again {
            Some(again) => self.resume_called(event, again).await?,
            None => CalledRun::Missing,
        };
        let end = match called {
            CalledRun::Active => return Ok(()),
            CalledRun::Ended(end) => end,
            CalledRun::Missing => match self.start_called(event.namespace_id, &asked).await {
                Ok(()) => return Ok(()),
                Err(IntakeError::Unavailable(error)) => return Err(error),
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

    async fn start_called(
        self: &Arc<Self>,
        namespace_id: i32,
        asked: &Asked,
    ) -> Result<(), IntakeError> {
        let release = self.live_flow(namespace_id, &asked.flow).await?;
        let key = Key::new(asked.key.clone().into_bytes()).map_err(|_| IntakeError::NoKey)?;
        let input = asked.input.clone();
        self.must_fit(&release, KeySpace::Call, &key, &input)
            .await?;
        let inbound = Inbound {
            release,
            trigger: TriggerKind::Call,
            mismatch: Mismatch::Accept,
            space: KeySpace::Call,
            key,
            fingerprint: Fingerprint::of(&input),
            text: input.to_string(),
            input,
            headers: Value::Null,
            query: Value::Null,
            by: None,
            caller: asked.caller,
            nominal: None,
            resumes: false,
        };
        self.accept(inbound).await.map(drop)
    }

    async fn carry_end(self: &Arc<Self>, event: &Event) -> Result<(), String> {
        match serde_json::from_str::<Ended>(&event.data) {
            Ok(ended) => self.answer_caller(event, ended.caller, ended.end).await,
            Err(_) => Ok(()),
        }
    }

    /// Answers the wait of a caller. The answer names the message that brings it: a wait that opened
    /// again is not answered by a repeat of the message that answered it before.
    async fn answer_caller(
        self: &Arc<Self>,
        event: &Event,
        caller: Caller,
        mut end: Value,
    ) -> Result<(), String> {
        if let Value::Object(end) = &mut end {
            end.insert("message".to_owned(), json!(event.id));
        }
        let text = end.to_string();
        let callback = Callback::of(caller.run, caller.wait, text);
        match self.answer(None, callback, end).await {
            Ok(_) | Err(CallbackError::Unknown | CallbackError::NotJson(_)) => Ok(()),
            Err(CallbackError::Unavailable(error)) => Err(error),
        }
    }

    async fn carry_cancel(self: &Arc<Self>, event: &Event) -> Result<(), String> {
        let Ok(cancelled) = serde_json::from_str::<Cancelled>(&event.data) else {
            return Ok(());
        };
        let unread = |error: ReadError| error.to_string();
        let held = claims::find(&self.cell, cancelled.claim).await;
        let Some(called) = held.map_err(unread)? else {
            return Ok(());
        };
        let asking = queue::ask_cancel(self.cell.of(run), event.namespace_id, called.run);
        asking.await.map_err(unread)?;
        self.signals.wake.notify_one();
        Ok(())
    }
}
