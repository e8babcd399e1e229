//! What no table can say about steps: which fields go together.

mod guard;
mod http;
mod people;

pub(crate) use http::{env_of, folded, is_header_name};

use std::collections::HashSet;

use super::Check;
use crate::diagnostic::Code;
use crate::effect::changes;
use crate::tree::{Record, StepInfo, Value};

/// Fields of a step that speak about an answer, and the actions that have one.
const ANSWERED: [(&str, &[&str]); 2] = [
    ("result", &["http", "db", "ssh", "task", "llm", "call"]),
    (
        "external_id",
        &["http", "db", "ssh", "task", "notify", "call"],
    ),
];
/// Fields of a step that only an effect has.
const OF_EFFECTS: [&str; 4] = ["key", "scope", "does", "undo"];

impl<'t> Check<'_, 't, '_> {
    pub(super) fn steps(&mut self) {
        let outline = self.outline;
        let mut known: HashSet<&str> = HashSet::new();
        for step in &outline.steps {
            if !step.id.is_empty() && !known.insert(step.id) {
                let message = format!("there is already a step `{}`", step.id);
                let help = "give every step a name of its own: its result is read by it";
                self.add(
                    Code::StepDuplicate,
                    step.record.value_span("id"),
                    &message,
                    help,
                );
            }
            if let Some(action) = step.action {
                self.step(step, action);
            }
        }
        if !outline.steps.is_empty() || outline.flow.has("steps") {
            self.undo_without_policy();
        }
    }

    fn step(&mut self, step: &StepInfo<'t>, action: &'static str) {
        let body = step.record.map(action);
        self.fields_fit(step.record, action, body);
        if let Some(body) = body {
            self.action(action, body);
        }
        self.guard(step, action, body);
        if let Some(undo) = step.record.map("undo") {
            for entry in &undo.fields {
                if let Some(body) = entry.value.as_ref().and_then(Value::as_map) {
                    self.action(entry.name, body);
                    if !changes(entry.name, Some(body)) && undo.fields.len() == 1 {
                        let message = "this `undo` changes nothing";
                        let help = "write the call that takes the effect back";
                        self.add(Code::FieldConflict, entry.name_span.clone(), message, help);
                    }
                }
            }
        }
    }

    /// What an action says, wherever it stands.
    fn action(&mut self, action: &str, body: &'t Record) {
        match action {
            "http" => self.http(body),
            "kv" => self.kv(body),
            "wait" => self.wait(body),
            "db" => self.sql(body),
            "ssh" => self.ssh(body),
            "emit" => self.emit(body),
            "approval" => self.approval(body),
            _ => {}
        }
    }

    fn fields_fit(&mut self, step: &Record, action: &str, body: Option<&Record>) {
        for (field, actions) in ANSWERED {
            if step.has(field) && !actions.contains(&action) {
                let message = format!("{} step cannot have `{field}`", an(action));
                let help = match field {
                    "result" => "leave it out: the step's result is what it yields",
                    _ => "leave it out: there is no call whose answer could get lost",
                };
                self.add(Code::FieldConflict, step.name_span(field), &message, help);
            }
        }
        // What could not be read is given the benefit of the doubt.
        if changes(action, body)
            || body.is_none_or(|body| body.fields.is_empty()) && action == "http"
        {
            if step.has("scope") && !step.has("key") {
                let message = "`scope` says how far a `key` holds, and there is none";
                let help = "add `key: …`, or leave `scope` out";
                self.add(Code::FieldConflict, step.name_span("scope"), message, help);
            }
            return;
        }
        for field in OF_EFFECTS.into_iter().filter(|field| step.has(field)) {
            let message = format!("`{field}` belongs to an effect, and this step has none");
            self.add(
                Code::FieldConflict,
                step.name_span(field),
                &message,
                "leave it out",
            );
        }
    }

    fn undo_without_policy(&mut self) {
        let flow = self.outline.flow;
        let asked = flow.word("on_failure") == Some("undo");
        let undone = self
            .outline
            .steps
            .iter()
            .any(|step| step.record.has("undo"));
        if asked && !undone {
            let message = "no step says how it is undone";
            let help = "add `undo` to the steps that can be taken back, or `on_failure: stop`";
            self.add(
                Code::FieldConflict,
                flow.value_span("on_failure"),
                message,
                help,
            );
        }
    }

    fn kv(&mut self, body: &Record) {
        let fields = ["value", "if_absent", "expect", "by", "ttl", "lease"];
        let Some(verb) = body.which(&["get", "set", "add", "delete", "lock", "unlock"]) else {
            return;
        };
        let known: &[&str] = match verb {
            "set" => &["value", "if_absent", "expect", "ttl"],
            "add" => &["by", "ttl"],
            "lock" => &["lease"],
            _ => &[],
        };
        for field in fields.into_iter().filter(|field| body.has(field)) {
            if !known.contains(&field) {
                let message = format!("`{verb}` has no `{field}`");
                let help = "leave it out";
                self.add(Code::FieldConflict, body.name_span(field), &message, help);
            }
        }
        if verb == "set" && !body.has("value") {
            let message = "`kv` needs `value`";
            self.add(
                Code::MissingField,
                body.span.clone(),
                message,
                "add `value: …`",
            );
        }
        if body.truth("if_absent") == Some(true) && body.has("expect") {
            let message = "what is expected cannot be absent as well";
            let help = "keep `if_absent` or `expect`";
            self.add(Code::FieldConflict, body.name_span("expect"), message, help);
        }
    }

    fn wait(&mut self, body: &Record) {
        if body.truth("callback") == Some(false) {
            let help = "write `callback: true`, or `for: 1h`";
            let span = body.value_span("callback");
            self.add(Code::WrongValue, span, "`callback` can only be true", help);
        }
        let timed = body.has("for") || body.has("until");
        for field in ["within", "on_timeout"] {
            if timed && body.has(field) && !body.has("callback") && !body.has("event") {
                let message = format!("`{field}` is for a callback or an event");
                let help = "leave it out: the wait ends by itself";
                self.add(Code::FieldConflict, body.name_span(field), &message, help);
            }
        }
        if body.has("match") && !body.has("event") {
            let message = "`match` is for an event";
            self.add(
                Code::FieldConflict,
                body.name_span("match"),
                message,
                "leave it out",
            );
        }
    }

    fn ssh(&mut self, body: &Record) {
        let detached = body.truth("detach") == Some(true);
        if detached && !body.has("callback") {
            let message = "a command that goes on by itself calls back when it ends";
            let help =
                "add `callback: \"${{ waits.ID.url }}\"`, and a `wait` step ID behind this one";
            self.add(Code::MissingField, body.name_span("detach"), message, help);
        }
        if body.has("callback") && !detached {
            let message = "`callback` is for a command that goes on by itself";
            let help = "add `detach: true`, or leave it out";
            let span = body.name_span("callback");
            self.add(Code::FieldConflict, span, message, help);
        }
    }

    fn sql(&mut self, body: &Record) {
        for field in ["query", "execute"] {
            if body.text(field).is_some_and(|sql| sql.contains("${{")) {
                let message = "SQL is a constant: a value inside it could become part of the text";
                let help = "write $1 in its place, and the value under `values`";
                self.add(Code::SqlHoles, body.value_span(field), message, help);
            }
        }
        if body.has("rows") && body.has("query") {
            let message = "`rows` is for a change";
            self.add(
                Code::FieldConflict,
                body.name_span("rows"),
                message,
                "leave it out",
            );
        }
    }
}

/// The action as it is spoken: an `http`, a `kv`.
fn an(action: &str) -> String {
    let vowel = matches!(action, "http" | "ssh" | "llm" | "emit" | "approval");
    let article = if vowel { "an" } else { "a" };
    format!("{article} `{action}`")
}
