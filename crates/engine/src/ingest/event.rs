//! Events that one flow emitted and another takes: the inbox.
//!
//! The event's own identity is the key, in a space of its own, unless the trigger names another, so
//! that an event that is dispatched twice finds its first run.

use std::sync::Arc;

use semel_model::{Key, KeySpace, SeededBug, TriggerKind};
use semel_store::outbox::OutboxEvent;

use super::delivery::{read_payload, tell};
use super::inbound::{Request, describe};
use super::{Inbound, Intake, IntakeError, refuse};
use crate::catalogue::Release;
use crate::runtime::Runtime;

impl Runtime {
    /// Accepts an event, for a flow that takes it.
    pub(crate) async fn receive_event(
        self: &Arc<Self>,
        release: Arc<Release>,
        event: &OutboxEvent,
    ) -> Result<Intake, IntakeError> {
        let Some(declared) = &release.flow.trigger.event else {
            return Ok(Intake::Ignored);
        };
        let (input, text) = read_payload(event.data.clone().into_bytes())?;
        let (request, trigger) = (Request::default(), describe(TriggerKind::Event));
        let scope = request.scope(&release, &trigger, &input);
        let told = match (&declared.key, &declared.when) {
            (Some(key), when) => tell(when.as_ref(), key, &scope),
            (None, Some(when)) => match when.eval_bool(&scope) {
                Ok(true) => own_key(event),
                Ok(false) => Ok(None),
                Err(error) => Err(format!("`when`: {error}")),
            },
            (None, None) => own_key(event),
        };
        let key = match told {
            Ok(Some(key)) => key,
            Ok(None) => {
                self.metrics.ignored.add_one();
                return Ok(Intake::Ignored);
            }
            Err(reason) => return Err(refuse(self, &release, reason).await),
        };
        let (mismatch, resumes) = (declared.mismatch, declared.resumes);
        let replays = declared.replays;
        let space = match declared.key {
            Some(_) => KeySpace::Given,
            None => KeySpace::Event,
        };
        let (kind, named) = (TriggerKind::Event, (space, key));
        self.receive(Inbound {
            resumes,
            replays,
            ..Inbound::new(release, kind, named, (input, text), mismatch)
        })
        .await
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
