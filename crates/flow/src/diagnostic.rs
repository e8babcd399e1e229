//! Diagnostics: what is wrong in a file, where, and what to write instead.

mod code;
mod report;

pub use code::Code;
pub(crate) use report::Report;

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use serde::Serialize;

/// How much of a line is shown before and behind the place.
const TEXT_BYTES_AROUND: usize = 500;

/// One mistake, at its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// The kind of mistake; its page is `docs/errors/<code>.md`.
    pub code: Code,
    /// Whether the flow can be published all the same.
    pub severity: Severity,
    /// The file, as the caller named it.
    pub file: String,
    /// The line, from one.
    pub line: usize,
    /// The character of the line, from one.
    pub column: usize,
    /// How many characters of the line are meant.
    pub width: usize,
    /// The line itself; of a very long one, the part around the place.
    pub text: String,
    /// The bytes of `text` that are meant.
    #[serde(skip)]
    underline: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub help: String,
}

/// How much a mistake matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The flow cannot be published.
    Error,
    /// The flow means what it says, but perhaps not what is meant.
    Warning,
}

impl Diagnostic {
    /// Points at a range of bytes in a source; what goes beyond its first line is not underlined.
    #[must_use]
    pub fn new(
        code: Code,
        (file, source): (&str, &str),
        span: Range<usize>,
        message: &str,
        help: &str,
    ) -> Self {
        let start = source.floor_char_boundary(span.start);
        let line_start = source[..start].rfind('\n').map_or(0, |at| at + 1);
        let rest = &source[line_start..];
        let line = rest
            .split('\n')
            .next()
            .unwrap_or(rest)
            .trim_end_matches('\r');
        let line_end = line_start + line.len();
        // At least one character is underlined, unless the line has ended.
        let next = source[start..].chars().next().map_or(0, char::len_utf8);
        let end = source.floor_char_boundary(span.end).max(start + next);
        let end = end.clamp(start, line_end.max(start));
        let from =
            source.floor_char_boundary(line_start.max(start.saturating_sub(TEXT_BYTES_AROUND)));
        let to = source.floor_char_boundary(line_end.min(end.saturating_add(TEXT_BYTES_AROUND)));
        let before = printable(&source[from..start]);
        let meant = printable(&source[start..end]);
        Self {
            code,
            severity: code.severity(),
            file: file.to_owned(),
            line: source[..line_start].matches('\n').count() + 1,
            column: source[line_start..start].chars().count() + 1,
            width: meant.chars().count().max(1),
            underline: before.len()..before.len() + meant.len(),
            text: before + &meant + &printable(&source[end..to.max(end)]),
            message: printable(message),
            help: printable(help),
        }
    }

    /// The diagnostic for people: the line, an underline, and the fix.
    #[must_use]
    pub fn render(&self, color: bool) -> String {
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let snippet = Snippet::source(self.text.as_str())
            .path(self.file.as_str())
            .line_start(self.line)
            .annotation(AnnotationKind::Primary.span(self.underline.clone()));
        let report = [level
            .primary_title(self.message.as_str())
            .id(self.code.as_str())
            .element(snippet)
            .element(Level::HELP.message(self.help.as_str()))];
        let renderer = if color {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        renderer.render(&report)
    }
}

/// A file's text ends up on terminals and in logs: what could steer them is shown as a mark.
fn printable(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_control() && c != '\t' {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect()
}
