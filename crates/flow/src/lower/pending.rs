//! What the language has and this build cannot run yet, by name.

use std::ops::Range;

use crate::diagnostic::{Code, Diagnostic, Report};
use crate::tree::{Outline, Record};

/// What a step can do in this build.
const ACTIONS: [&str; 18] = [
    "http", "kv", "function", "wait", "db", "ssh", "notify", "llm", "persist", "emit", "call",
    "switch", "foreach", "parallel", "fail", "return", "task", "approval",
];
/// Fields of a step that this build does not act on.
const STEP_FIELDS: [&str; 2] = ["key", "scope"];

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
        self.fields(flow, &["overlap", "limit"]);
        let Some(trigger) = flow.map("trigger") else {
            return;
        };
        self.fields(trigger, &["schedule"]);
        if let Some(webhook) = trigger.map("webhook") {
            self.fields(webhook, &["order"]);
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
    }
}
