//! What is asked of people, and which events speak for Semel itself.

use super::super::Check;
use crate::diagnostic::Code;
use crate::tree::Record;

/// What the names of Semel's own events begin with.
const OWN_EVENTS: &str = "semel.";

impl Check<'_, '_, '_> {
    /// An event that could be taken for one of Semel's own.
    pub(super) fn emit(&mut self, body: &Record) {
        let name = body.text("event").unwrap_or_default();
        if let Some(other) = name.strip_prefix(OWN_EVENTS) {
            let message = "names that begin with `semel.` are for events that Semel itself emits";
            let help = format!("write another name, e.g. `{}`", other);
            self.add(Code::WrongValue, body.value_span("event"), message, &help);
        }
    }

    pub(super) fn approval(&mut self, body: &Record) {
        if body.has("from") && body.list("from").is_empty() {
            let message = "nobody may answer";
            let help = "name people or groups, e.g. `from: [finance]`";
            self.add(Code::WrongValue, body.value_span("from"), message, help);
        }
        if body.has("escalate") && !body.has("within") {
            let message = "`escalate` counts half of `within`, and there is none";
            let help = "add `within: 2d`, or leave it out";
            let span = body.name_span("escalate");
            self.add(Code::FieldConflict, span, message, help);
        }
        if body.truth("not_starter") == Some(true) && body.truth("login") == Some(false) {
            let message = "a link does not say who follows it";
            let help = "leave `login` out: with `not_starter` the link alone is not enough";
            let span = body.name_span("login");
            self.add(Code::FieldConflict, span, message, help);
        }
    }
}
