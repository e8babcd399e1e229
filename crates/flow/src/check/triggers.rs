//! What no table can say about triggers.

use super::Check;
use crate::diagnostic::Code;
use crate::triggers;

impl Check<'_, '_, '_> {
    pub(super) fn triggers(&mut self) {
        let Some(trigger) = self.outline.flow.map("trigger") else {
            return;
        };
        if trigger.fields.is_empty() {
            let message = "a flow needs at least one trigger";
            let help = "add `api: {}`, `manual: {}`, a `webhook`, a `schedule` or an `event`";
            let span = self.outline.flow.value_span("trigger");
            self.add(Code::MissingField, span, message, help);
        }
        for (spec, record) in triggers::declared(trigger) {
            if let Some(check) = spec.check {
                check(self.report, record);
            }
        }
    }
}
