//! Events that one flow emitted and another takes: the inbox.
//!
//! The event's own identity is the key, in a space of its own, unless the trigger names another, so
//! that an event that is dispatched twice finds its first run. The dispatch records which release gave
//! the key before it hands the event over.

use std::sync::Arc;

use semel_model::{Key, KeySpace, SeededBug, TriggerKind};
use semel_store::outbox::OutboxEvent;
use serde_json::Value;

use super::delivery::{read_stored, tell};
use super::inbound::{Request, describe};
use super::input::note_refusal;
use super::{Inbound, Intake, IntakeError, refuse};
use crate::catalogue::Release;
use crate::runtime::Runtime;

/// What an event brings, read once for all that take it.
pub(crate) struct EventPayload {
    input: Value,
    text: String,
}

impl EventPayload {
    pub(crate) fn read(event: &OutboxEvent) -> Self {
        let (input, text) = read_stored(&event.data);
        Self { input, text }
    }

    /// Its data.
    pub(crate) fn data(&self) -> &Value {
        &self.input
    }

    /// The same as JSON text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

impl Runtime {
    /// Accepts an event, for a flow that takes it.
    pub(crate) async fn receive_event(
        self: &Arc<Self>,
        release: Arc<Release>,
        event: &OutboxEvent,
    ) -> Result<Intake, IntakeError> {
        let payload = EventPayload::read(event);
        match self.name_event(&release, event, &payload).await? {
            Some(named) => {
                self.receive_named_event(release, event, &payload, named, None)
                    .await
            }
            None => Ok(Intake::Ignored),
        }
    }

    /// The key under which a release takes an event; nothing where its trigger ignores the event. A key that cannot be
    /// computed is on record.
    pub(crate) async fn name_event(
        self: &Arc<Self>,
        release: &Release,
        event: &OutboxEvent,
        payload: &EventPayload,
    ) -> Result<Option<(KeySpace, Key)>, IntakeError> {
        let Some(declared) = &release.flow.trigger.event else {
            return Ok(None);
        };
        let (request, trigger) = (Request::default(), describe(TriggerKind::Event));
        let scope = request.scope(release, &trigger, &payload.input);
        let told = match (&declared.key, &declared.when) {
            (Some(key), when) => tell(when.as_ref(), key, &scope),
            (None, Some(when)) => match when.eval_bool(&scope) {
                Ok(true) => own_key(event),
                Ok(false) => Ok(None),
                Err(error) => Err(format!("`when`: {error}")),
            },
            (None, None) => own_key(event),
        };
        let space = match declared.key {
            Some(_) => KeySpace::Given,
            None => KeySpace::Event,
        };
        match told {
            Ok(Some(key)) => Ok(Some((space, key))),
            Ok(None) => {
                self.metrics.ignored.add_one();
                Ok(None)
            }
            Err(reason) => Err(refuse(self, release, reason).await),
        }
    }

    /// Accepts an event under its key. It happened, and nobody sends it again: whatever it is refused for is on record.
    /// `run_max` is the number of the last run of the key that it may make, where that was recorded.
    pub(crate) async fn receive_named_event(
        self: &Arc<Self>,
        release: Arc<Release>,
        event: &OutboxEvent,
        payload: &EventPayload,
        named: (KeySpace, Key),
        run_max: Option<i32>,
    ) -> Result<Intake, IntakeError> {
        let Some(declared) = &release.flow.trigger.event else {
            return Ok(Intake::Ignored);
        };
        let (mismatch, resumes) = (declared.mismatch, declared.resumes);
        let replays = declared.replays;
        let came = (payload.input.clone(), payload.text.clone());
        let kind = TriggerKind::Event;
        let taken = self.receive(Inbound {
            resumes,
            replays,
            run_max,
            ..Inbound::new(release.clone(), kind, named, came, mismatch)
        });
        let taken = taken.await;
        if let Err(error) = &taken
            && !error.is_recorded()
            && !matches!(error, IntakeError::Unavailable(_))
        {
            let reason = format!("event {}: {error}", event.id);
            note_refusal(self, &release, error, &reason).await;
        }
        taken
    }
}

/// The key that the event carries.
fn own_key(event: &OutboxEvent) -> Result<Option<Key>, String> {
    let id = match SeededBug::EventUnderNewId.is_seeded() {
        true => uuid::Uuid::from_u128(crate::runtime::jitter().to_bits().into()).to_string(),
        false => event.id.to_string(),
    };
    let key = Key::new(id.into_bytes());
    key.map(Some).map_err(|error| error.to_string())
}
