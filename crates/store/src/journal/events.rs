//! The events of a transition as the journal will hold them.

use std::ops::Deref;

use semel_model::event::Event;

/// What happened, with its JSON text. The turn serialises it, so that the single writer does not
/// have to.
#[derive(Debug)]
pub struct Events {
    events: Vec<Event>,
    text: String,
}

impl Events {
    /// Writes the events out.
    pub fn new(events: Vec<Event>) -> Self {
        let text = to_text(&events);
        Self { events, text }
    }

    /// As the journal holds them.
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

impl Deref for Events {
    type Target = [Event];

    fn deref(&self) -> &[Event] {
        &self.events
    }
}

/// Events as JSON text.
pub(crate) fn to_text<'a>(events: impl IntoIterator<Item = &'a Event>) -> String {
    let events: Vec<&Event> = events.into_iter().collect();
    match serde_json::to_string(&events) {
        Ok(text) => text,
        Err(error) => unreachable!("events are plain data: {error}"),
    }
}
