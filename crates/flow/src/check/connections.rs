//! Connections: whether each that is named exists, and leads where its step can go.

use super::Check;
use crate::diagnostic::Code;
use crate::nearest::nearest;
use crate::steps::{KINDS, StepKind};
use crate::tree::Record;

impl<'t> Check<'_, 't, '_> {
    pub(super) fn connections(&mut self) {
        self.connection_of_list();
        let outline = self.outline;
        for step in &outline.steps {
            self.connection_of(step.record);
            for part in ["probe", "undo"] {
                if let Some(record) = step.record.map(part) {
                    self.connection_of(record);
                }
            }
        }
    }

    /// The connection of what `reconcile` reads.
    fn connection_of_list(&mut self) {
        let reconcile = self.outline.flow.map("reconcile");
        if let Some(list) = reconcile.and_then(|reconcile| reconcile.map("list")) {
            self.connection_of(list);
        }
    }

    /// The connection of whatever a map calls.
    fn connection_of(&mut self, record: &'t Record) {
        for kind in KINDS.iter().filter(|kind| !kind.connection.is_empty()) {
            let body = record.map(kind.name());
            let named = body.and_then(|body| Some((body, body.text("connection")?)));
            let Some((body, name)) = named else {
                continue;
            };
            match self.context.connections.get(name) {
                Some(known) => {
                    let to = known.kind.filter(|to| !kind.connection.contains(to));
                    if let Some(to) = to {
                        self.unfit_connection(body, kind, to);
                    }
                }
                None => self.unknown_connection(body, name),
            }
        }
    }

    fn unfit_connection(&mut self, body: &Record, kind: &StepKind, to: &str) {
        let name = body.text("connection").unwrap_or_default();
        let message = format!(
            "the connection `{name}` leads to {to}, which `{}` cannot use",
            kind.name()
        );
        let help = format!(
            "name a connection of the kind {}",
            kind.connection.join(", ")
        );
        let span = body.value_span("connection");
        self.add(Code::ConnectionUnfit, span, &message, &help);
    }

    fn unknown_connection(&mut self, body: &Record, name: &str) {
        let Some(severity) = self.context.unknown else {
            return;
        };
        let known = self.context.connections.keys().map(String::as_str);
        let message = format!("there is no connection `{name}`");
        let help = match nearest(name, known) {
            Some(near) => format!("write `{near}`, or create it: `semel connection create {name}`"),
            None => {
                format!("create it before the flow is published: `semel connection create {name}`")
            }
        };
        let span = body.value_span("connection");
        let mut diagnostic = self
            .report
            .make(Code::ConnectionUnknown, span, &message, &help);
        diagnostic.severity = severity;
        self.report.diagnostics.push(diagnostic);
    }
}
