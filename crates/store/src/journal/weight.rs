//! How heavy a transition is, before it is written out.

use std::io;

use serde::Serialize;

use super::Transition;
use crate::kv::Write;

/// Counts what would be written, and keeps none of it.
struct Counting(usize);

impl io::Write for Counting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The length of a value as JSON text.
fn json_bytes(value: &impl Serialize) -> usize {
    let mut counting = Counting(0);
    // Nothing that can be counted here fails to be written; whatever did is refused by the write.
    let _ = serde_json::to_writer(&mut counting, value);
    counting.0
}

impl Transition {
    /// About how many bytes it puts into the statement.
    pub(super) fn bytes(&self) -> usize {
        let record = self.record.as_ref().map_or(0, |record| {
            let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
            text(&record.result) + text(&record.fault)
        });
        // An entry's new value is in no event where it is not known before.
        let entry = self.kv.as_ref().map_or(0, entry_bytes);
        let emitted: usize = self.emitted.iter().map(|it| json_bytes(&it.emission)).sum();
        json_bytes(&self.events) + record + entry + emitted
    }
}

fn entry_bytes(write: &Write) -> usize {
    json_bytes(&write.operation)
}
