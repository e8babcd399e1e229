//! Carries calls between flows: the start, the end and the cancellation of a run that another
//! called.

use std::sync::Arc;

use semel_model::event::Caller;
use semel_model::run::EndState;
use semel_model::{Fault, Fingerprint, Key, KeySpace, Mismatch, RunId, TriggerKind};
use semel_store::outbox::Event;
use semel_store::queue;
use semel_store::waits::Callback;
use serde_json::{Value, json};

use crate::call::{Asked, CANCEL, END, Ended, START};
use crate::ingest::callback::CallbackError;
use crate::ingest::{Inbound, IntakeError};
use crate::runtime::Runtime;

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
        let refused = match self.start_called(event.namespace_id, &asked).await {
            Ok(()) => return Ok(()),
            Err(IntakeError::Unavailable(error)) => return Err(error),
            Err(error) => Fault::permanent(error.code(), error.to_string()),
        };
        tracing::warn!(run.id = %event.run, code = refused.code, "a call was refused");
        let Some(caller) = asked.caller else {
            return Ok(());
        };
        let flow = asked.flow.as_str();
        let end = json!({ "run": flow, "state": EndState::Failed, "fault": refused });
        self.answer_caller(caller, end).await
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
            Ok(ended) => self.answer_caller(ended.caller, ended.end).await,
            Err(_) => Ok(()),
        }
    }

    async fn answer_caller(self: &Arc<Self>, caller: Caller, end: Value) -> Result<(), String> {
        let text = end.to_string();
        let callback = Callback::of(caller.run, caller.wait, text);
        match self.answer(None, callback, end).await {
            Ok(_) | Err(CallbackError::Unknown | CallbackError::NotJson(_)) => Ok(()),
            Err(CallbackError::Unavailable(error)) => Err(error),
        }
    }

    async fn carry_cancel(self: &Arc<Self>, event: &Event) -> Result<(), String> {
        let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
        let Ok(run) = serde_json::from_value::<RunId>(data["run"].clone()) else {
            return Ok(());
        };
        queue::ask_cancel(self.cell.of(run), event.namespace_id, run)
            .await
            .map_err(|error| error.to_string())?;
        self.signals.wake.notify_one();
        Ok(())
    }
}
