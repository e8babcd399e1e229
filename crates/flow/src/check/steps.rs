//! What no table can say about steps: which fields go together.

mod guard;

use std::collections::HashSet;

use super::Check;
use crate::diagnostic::Code;
use crate::outline::StepInfo;
use crate::steps::{self, ActionKind, BodyCheck, StepKind};
use crate::tree::Record;

/// Fields of a step that only an effect has.
const OF_EFFECTS: [&str; 7] = [
    "key",
    "scope",
    "keep",
    "mismatch",
    "undo_shared",
    "does",
    "undo",
];

/// Fields of a step that only a business key has.
const OF_KEYS: [&str; 4] = ["scope", "keep", "mismatch", "undo_shared"];

impl<'t> Check<'_, 't, '_> {
    pub(super) fn steps(&mut self) {
        let outline = self.outline;
        let mut known: HashSet<&str> = HashSet::new();
        for step in &outline.steps {
            if !step.id.is_empty() && !known.insert(step.id) {
                let message = format!("there is already a step `{}`", step.id);
                let help = "give every step its own name: expressions read its result by name";
                self.add(
                    Code::StepDuplicate,
                    step.record.value_span("id"),
                    &message,
                    help,
                );
            }
            if let Some(kind) = step.kind {
                self.step(step, kind);
            }
        }
        if !outline.steps.is_empty() || outline.flow.has("steps") {
            self.undo_without_policy();
        }
        self.examples_differ();
    }

    fn examples_differ(&mut self) {
        let mut known: HashSet<&str> = HashSet::new();
        for example in self.outline.flow.maps("examples") {
            let Some(name) = example.text("name") else {
                continue;
            };
            if !known.insert(name) {
                let message = format!("there is already an example `{name}`");
                let help = "give every example its own name: a rehearsal names its cases by it";
                self.add(
                    Code::ExampleDuplicate,
                    example.value_span("name"),
                    &message,
                    help,
                );
            }
        }
    }

    fn step(&mut self, step: &StepInfo<'t>, kind: &'static StepKind) {
        let body = step.record.map(kind.name());
        self.fields_fit(step.record, kind, body);
        if let Some(body) = body {
            self.body(kind, body);
        }
        self.guard(step, kind, body);
        if let Some(undo) = step.record.map("undo") {
            self.undo(undo);
        }
    }

    /// What takes an effect back.
    fn undo(&mut self, undo: &Record) {
        for entry in &undo.fields {
            let Some((kind, body)) = steps::find(entry.name).zip(undo.map(entry.name)) else {
                continue;
            };
            self.body(kind, body);
            if kind.changes(Some(body)) != Some(true) && undo.fields.len() == 1 {
                let message = "this `undo` changes nothing";
                let help = "write the call that reverses the effect";
                self.add(Code::FieldConflict, entry.name_span.clone(), message, help);
            }
        }
    }

    /// What a kind of step says, wherever it stands.
    pub(super) fn body(&mut self, kind: &StepKind, body: &Record) {
        if let Some(check) = kind.check {
            check(&mut BodyCheck::new(self.report, self.outline.flow), body);
        }
    }

    fn fields_fit(&mut self, step: &Record, kind: &StepKind, body: Option<&Record>) {
        if step.has("result") && !kind.takes_result {
            let help = "leave it out: the step's result is its value";
            self.unfit_field(step, kind, "result", help);
        }
        if step.has("external_id") && !kind.takes_external_id {
            let help = "leave it out: there is no call whose response could be lost";
            self.unfit_field(step, kind, "external_id", help);
        }
        // What could not be read is given the benefit of the doubt.
        if kind.changes(body).unwrap_or(true) {
            self.key_fits(step, kind);
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

    /// A business key of an effect, and what goes with it.
    fn key_fits(&mut self, step: &Record, kind: &StepKind) {
        if step.has("key") && kind.kind == ActionKind::Call {
            let help = "leave it out: the trigger of the called flow computes the key of the run";
            self.unfit_field(step, kind, "key", help);
        }
        for field in OF_KEYS.into_iter().filter(|field| step.has(field)) {
            if !step.has("key") {
                let message = format!("`{field}` applies to a `key`, and there is none");
                let help = format!("add `key: …`, or leave `{field}` out");
                self.add(Code::FieldConflict, step.name_span(field), &message, &help);
            }
        }
    }

    fn unfit_field(&mut self, step: &Record, kind: &StepKind, field: &str, help: &str) {
        let message = format!("{} step cannot have `{field}`", kind.spoken());
        self.add(Code::FieldConflict, step.name_span(field), &message, help);
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
            let message = "no step has `undo`";
            let help = "add `undo` to the steps that can be compensated, or `on_failure: stop`";
            self.add(
                Code::FieldConflict,
                flow.value_span("on_failure"),
                message,
                help,
            );
        }
    }
}
