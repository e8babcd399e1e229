//! Checking: a file goes in, a flow or its mistakes come out. Nothing runs.

use crate::diagnostic::{Diagnostic, Severity};
use crate::expr::with_deep_stack;
use crate::read;
use crate::release::Flow;

/// What a check found.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The flow, where no mistake is an error.
    pub flow: Option<Flow>,
    /// Every mistake of the file, in the order of the lines.
    pub diagnostics: Vec<Diagnostic>,
}

impl Checked {
    /// All diagnostics for people, one after the other.
    #[must_use]
    pub fn render(&self, color: bool) -> String {
        let rendered: Vec<String> = self
            .diagnostics
            .iter()
            .map(|diagnostic| diagnostic.render(color))
            .collect();
        rendered.join("\n\n")
    }
}

/// Checks the text of a flow. `file` is what diagnostics call it.
#[must_use]
pub fn check(file: &str, source: &str) -> Checked {
    let (flow, mut diagnostics) = with_deep_stack(|| read::flow(file, source));
    diagnostics.sort_by_key(|diagnostic| (diagnostic.line, diagnostic.column));
    let sound = diagnostics
        .iter()
        .all(|diagnostic| diagnostic.severity != Severity::Error);
    Checked {
        flow: flow.filter(|_| sound),
        diagnostics,
    }
}
