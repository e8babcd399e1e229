//! What the language has and this build cannot run yet, by name.

use std::ops::Range;

use crate::diagnostic::{Code, Diagnostic, Report};
use crate::outline::Outline;
use crate::steps::ActionKind;

/// Every construct of a flow that this build cannot run.
pub(crate) fn pending(outline: &Outline<'_>, report: &Report<'_>) -> Vec<Diagnostic> {
    let mut pending = Pending {
        report,
        found: vec![],
    };
    for step in &outline.steps {
        // What a `kv` step yields is known only inside the commit that makes the change, and a
        // task's worker passes the task's own key on.
        let unfit = [ActionKind::Kv, ActionKind::Task];
        let kind = step.kind.filter(|kind| unfit.contains(&kind.kind));
        if let (Some(kind), true) = (kind, step.record.has("key")) {
            let what = format!("`key` on {} step", kind.spoken());
            pending.add(step.record.name_span("key"), &what);
        }
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
}
