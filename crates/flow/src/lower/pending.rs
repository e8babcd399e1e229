//! What the language has and this build cannot run yet, by name.

use std::ops::Range;

use crate::diagnostic::{Code, Diagnostic, Report};
use crate::outline::Outline;
use crate::tree::Record;

/// Fields of a step that this build does not act on.
const STEP_FIELDS: [&str; 2] = ["key", "scope"];

/// Every construct of a flow that this build cannot run.
pub(crate) fn pending(outline: &Outline<'_>, report: &Report<'_>) -> Vec<Diagnostic> {
    let mut pending = Pending {
        report,
        found: vec![],
    };
    for step in &outline.steps {
        pending.fields(step.record, &STEP_FIELDS);
    }
    pending.found
}

struct Pending<'r, 's> {
    report: &'r Report<'s>,
    found: Vec<Diagnostic>,
}

impl Pending<'_, '_> {
    fn add(&mut self, span: Range<usize>, what: &str) {
        let message = format!("this build cannot run {what} yet");
        let help = "`check` accepts it; publish the flow with a build that runs it";
        let found = self.report.make(Code::NotInThisBuild, span, &message, help);
        self.found.push(found);
    }

    fn fields(&mut self, record: &Record, fields: &[&str]) {
        for field in fields.iter().filter(|field| record.has(field)) {
            self.add(record.name_span(field), &format!("`{field}`"));
        }
    }
}
