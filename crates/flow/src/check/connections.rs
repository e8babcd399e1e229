//! Connections: whether each that is named exists, and leads where its step can go.

use super::Check;
use crate::diagnostic::Code;
use crate::nearest::nearest;
use crate::tree::{Record, Value};

/// The kinds of destinations that each action can use.
const KINDS: [(&str, &[&str]); 5] = [
    ("http", &["http"]),
    ("db", &["postgres"]),
    ("ssh", &["ssh"]),
    ("notify", &["smtp", "slack", "webhook"]),
    ("llm", &["llm"]),
];

impl<'t> Check<'_, 't, '_> {
    pub(super) fn connections(&mut self) {
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

    /// The connection of whatever a map calls.
    fn connection_of(&mut self, record: &'t Record) {
        for (action, kinds) in KINDS {
            let body = record.value(action).and_then(Value::as_map);
            let named = body.and_then(|body| Some((body, body.text("connection")?)));
            let Some((body, name)) = named else {
                continue;
            };
            match self.facts.connections.get(name) {
                Some(known) => {
                    let kind = known.kind.filter(|kind| !kinds.contains(kind));
                    if let Some(kind) = kind {
                        self.unfit_connection(body, action, kind, kinds);
                    }
                }
                None => self.unknown_connection(body, name),
            }
        }
    }

    fn unfit_connection(&mut self, body: &Record, action: &str, kind: &str, kinds: &[&str]) {
        let name = body.text("connection").unwrap_or_default();
        let message =
            format!("the connection `{name}` leads to {kind}, which `{action}` cannot use");
        let help = format!("name a connection of the kind {}", kinds.join(", "));
        let span = body.value_span("connection");
        self.add(Code::ConnectionUnfit, span, &message, &help);
    }

    fn unknown_connection(&mut self, body: &Record, name: &str) {
        let Some(severity) = self.facts.unknown else {
            return;
        };
        let known = self.facts.connections.keys().map(String::as_str);
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
