//! Events.

use semel_model::EffectId;

use super::transfer::read;
use super::{Client, ClientError};
use crate::types::{EmittedEvent, EventDetail, EventFilter, Page};

impl Client {
    /// Lists the events that runs emitted, the newest first.
    pub async fn list_events(
        &self,
        filter: &EventFilter,
    ) -> Result<Page<EmittedEvent>, ClientError> {
        read(self.get(&["v1", "events"]).query(filter)).await
    }

    /// An event, and who received it.
    pub async fn get_event(&self, event: EffectId) -> Result<EventDetail, ClientError> {
        read(self.get(&["v1", "events", &event.to_string()])).await
    }
}
