//! What the language has and this build cannot run yet, by name.

use std::ops::Range;

use crate::diagnostic::{Code, Diagnostic, Report};
use crate::tree::{Outline, Record};

/// What a step can do in this build.
const ACTIONS: [&str; 10] = [
    "http", "kv", "function", "wait", "db", "ssh", "notify", "llm", "persist", "emit",
];
/// Fields of a step that this build does not act on.
const STEP_FIELDS: [&str; 3] = ["key", "scope", "undo"];

/// Every construct of a flow that this build cannot run.
pub(crate) fn pending(outline: &Outline<'_>, report: &Report<'_>) -> Vec<Diagnostic> {
    let mut pending = Pending {
        report,
        found: vec![],
    };
    pending.flow(outline.flow);
    for step in &outline.steps {
        pending.step(step.record, step.action);
    }
    pending.found
}

struct Pending<'r, 's> {
    report: &'r Report<'s>,
    found: Vec<Diagnostic>,
}

impl Pending<'_, '_> {
    fn add(&mut self, span: Range<usize>, what: &str) {
        let message = format!("{what} cannot be run by this build yet");
        let help = "`check` knows it; publish the flow with a build that runs it";
        let found = self.report.make(Code::NotInThisBuild, span, &message, help);
        self.found.push(found);
    }

    fn fields(&mut self, record: &Record, fields: &[&str]) {
        for field in fields.iter().filter(|field| record.has(field)) {
            self.add(record.name_span(field), &format!("`{field}`"));
        }
    }

    fn flow(&mut self, flow: &Record) {
        if flow.word("on_failure") == Some("undo") {
            self.add(flow.name_span("on_failure"), "`on_failure: undo`");
        }
        let Some(trigger) = flow.map("trigger") else {
            return;
        };
        self.fields(trigger, &["schedule"]);
        for start in ["webhook", "api", "manual"] {
            if let Some(start) = trigger.map(start)
                && start.word("on_repeat") == Some("resume")
            {
                self.add(start.name_span("on_repeat"), "`on_repeat: resume`");
            }
        }
    }

    fn step(&mut self, step: &Record, action: Option<&'static str>) {
        let Some(action) = action else {
            return;
        };
        if !ACTIONS.contains(&action) {
            self.add(step.name_span(action), &format!("`{action}`"));
        }
        self.fields(step, &STEP_FIELDS);
        if let Some(wait) = step.map(action).filter(|body| body.shape.name == "wait") {
            self.fields(wait, &["until", "event"]);
            if wait.word("on_timeout") == Some("continue") {
                self.add(wait.name_span("on_timeout"), "`on_timeout: continue`");
            }
        }
    }
}
