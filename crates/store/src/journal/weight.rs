//! How heavy a transition is, before it is written.

use super::Transition;

impl Transition {
    /// About how many bytes it puts into the statement.
    pub(super) fn bytes(&self) -> usize {
        let record = self.record.as_ref().map_or(0, |record| {
            let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
            text(&record.result) + text(&record.fault)
        });
        // An entry's new value is in no event where it is not known before.
        let entries: usize = self
            .kv
            .iter()
            .map(|it| it.operation.estimated_bytes())
            .sum();
        let emitted = self.emitted.iter();
        let emitted: usize = emitted.map(|it| it.emission.estimated_bytes()).sum();
        // A result that a named effect is to know is in its event too.
        let notices = match self.notices.is_empty() {
            true => 0,
            false => self.events.text().len(),
        };
        let next = self.next_run.as_ref().map_or(0, |next| next.events.len());
        self.events.text().len() + record + entries + emitted + notices + next
    }
}
