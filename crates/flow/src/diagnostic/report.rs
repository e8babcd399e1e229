//! Gathering the diagnostics of one file.

use std::ops::Range;

use super::{Code, Diagnostic};

/// Diagnostics of one severity.
const COUNT_MAX: usize = 100;

/// The diagnostics of a file while it is looked at.
pub(crate) struct Report<'s> {
    file: &'s str,
    pub(crate) source: &'s str,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

impl<'s> Report<'s> {
    pub(crate) const fn new(file: &'s str, source: &'s str) -> Self {
        Self {
            file,
            source,
            diagnostics: vec![],
        }
    }

    /// Adds a diagnostic, up to more than an author would read. Errors and warnings are counted
    /// apart, so that no error hides behind warnings.
    pub(crate) fn add(&mut self, code: Code, span: Range<usize>, message: &str, help: &str) {
        let alike = |one: &&Diagnostic| one.severity == code.severity();
        if self.diagnostics.iter().filter(alike).count() >= COUNT_MAX {
            return;
        }
        let diagnostic = self.make(code, span, message, help);
        self.diagnostics.push(diagnostic);
    }

    /// The line of a byte, from one.
    pub(crate) fn line_of(&self, offset: usize) -> usize {
        let before = self.source.as_bytes().iter().take(offset);
        before.filter(|byte| **byte == b'\n').count() + 1
    }

    /// A diagnostic of this file that is not among the gathered ones.
    pub(crate) fn make(
        &self,
        code: Code,
        span: Range<usize>,
        message: &str,
        help: &str,
    ) -> Diagnostic {
        Diagnostic::new(code, (self.file, self.source), span, message, help)
    }
}
