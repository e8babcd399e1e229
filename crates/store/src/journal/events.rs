//! The events of a transition as the journal will hold them, and how heavy a transition is.

use std::ops::Deref;

use semel_model::event::Event;
use semel_model::kv::Verb;
use serde_json::Value;

use super::Transition;
use crate::kv::Write;

/// What happened, and how it stands in the journal. It is written out once, by whoever made it: a
/// writer has many of them to carry.
#[derive(Clone, Debug)]
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
pub(super) fn to_text<'a>(events: impl IntoIterator<Item = &'a Event>) -> String {
    let events: Vec<&Event> = events.into_iter().collect();
    match serde_json::to_string(&events) {
        Ok(text) => text,
        Err(error) => unreachable!("events are plain data: {error}"),
    }
}

impl Transition {
    /// About how many bytes it puts into the statement.
    pub(super) fn bytes(&self) -> usize {
        let record = self.record.as_ref().map_or(0, |record| {
            let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
            text(&record.result) + text(&record.fault)
        });
        let entry = self.kv.as_ref().map_or(0, entry_bytes);
        let emitted = self.emitted.iter();
        let emitted: usize = emitted.map(|it| value_bytes(&it.emission.data)).sum();
        self.events.text.len() + record + entry + emitted
    }
}

fn entry_bytes(write: &Write) -> usize {
    let value = match &write.operation.verb {
        Verb::Set { value, expect, .. } => {
            value_bytes(value) + expect.as_ref().map_or(0, value_bytes)
        }
        Verb::Get | Verb::Add { .. } | Verb::Delete | Verb::Lock { .. } | Verb::Unlock => 0,
    };
    write.operation.entry.len() + value
}

/// About how long a value is as JSON text.
fn value_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => {
            items
                .iter()
                .map(|item| value_bytes(item) + 1)
                .sum::<usize>()
                + 2
        }
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| name.len() + 4 + value_bytes(value);
            fields.iter().map(field).sum::<usize>() + 2
        }
    }
}
