//! How heavy a transition is, before it is written.

use semel_model::kv::Verb;
use serde_json::Value;

use super::Transition;
use crate::kv::Write;

impl Transition {
    /// About how many bytes it puts into the statement.
    pub(super) fn bytes(&self) -> usize {
        let record = self.record.as_ref().map_or(0, |record| {
            let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
            text(&record.result) + text(&record.fault)
        });
        // An entry's new value is in no event where it is not known before.
        let entry = self.kv.as_ref().map_or(0, entry_bytes);
        let emitted = self.emitted.iter();
        let emitted: usize = emitted.map(|it| value_bytes(&it.emission.data)).sum();
        // A result that a named effect is to know is in its event too.
        let notices = match self.notices.is_empty() {
            true => 0,
            false => self.events.text().len(),
        };
        let next = self.next_run.as_ref().map_or(0, |next| next.events.len());
        self.events.text().len() + record + entry + emitted + notices + next
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

/// About how long a value is as JSON text. Escapes are not counted: a text of nothing else is six
/// times as long, and what [`crate::writer::ITEM_BYTES_MAX`] lets pass still fits into a message.
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
