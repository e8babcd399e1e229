//! From the tree of a file to the release it describes.
//!
//! Reading goes on after a mistake: what cannot be read is absent, and the rest is read all the
//! same, so that an author sees every mistake at once.

mod control;
mod expression;
mod fields;
mod flow;
mod http;
mod kv;
mod names;
mod scalar;
mod step;
mod template;
mod trigger;

use std::ops::Range;

use serde_json::Value;

use crate::diagnostic::{Code, Diagnostic};
use crate::release::Flow;
use crate::yaml::{self, Node};

/// Reads a file. Must be called on a deep stack: expressions are parsed along the way.
pub(crate) fn flow(file: &str, source: &str) -> (Option<Flow>, Vec<Diagnostic>) {
    let (tree, mistakes) = yaml::parse(source);
    let mut reader = Reader {
        file,
        source,
        diagnostics: vec![],
        env: Value::Object(serde_json::Map::new()),
        expr_count: 0,
    };
    for mistake in mistakes {
        reader.report(mistake.code, mistake.span, &mistake.message, mistake.help);
    }
    let flow = tree.and_then(|tree| reader.flow(&tree));
    (flow, reader.diagnostics)
}

/// Expressions of one file. Each costs its parser some 50 microseconds.
const EXPR_COUNT_MAX: usize = 5_000;
/// Diagnostics of one severity.
const DIAGNOSTIC_COUNT_MAX: usize = 100;

/// The state of one reading.
struct Reader<'s> {
    file: &'s str,
    source: &'s str,
    diagnostics: Vec<Diagnostic>,
    /// The flow's constants, known before any step is read.
    env: Value,
    expr_count: usize,
}

impl Reader<'_> {
    /// Adds a diagnostic, up to a number that nobody reads through. Errors and warnings are counted
    /// apart, so that no error hides behind warnings.
    fn report(&mut self, code: Code, span: Range<usize>, message: &str, help: &str) {
        let alike = |one: &&Diagnostic| one.severity == code.severity();
        if self.diagnostics.iter().filter(alike).count() >= DIAGNOSTIC_COUNT_MAX {
            return;
        }
        let place = (self.file, self.source);
        self.diagnostics
            .push(Diagnostic::new(code, place, span, message, help));
    }

    /// A node of another shape than the field takes.
    fn wrong_type(&mut self, node: &Node, field: &str, expected: &str) {
        let message = format!("`{field}` is {expected}, not {}", node.kind_name());
        let help = format!("write {expected}");
        self.report(Code::WrongType, node.span.clone(), &message, &help);
    }

    /// Whether so many more expressions may be read; says so once when they may not.
    fn afford_exprs(&mut self, node: &Node, count: usize) -> bool {
        let before = self.expr_count;
        self.expr_count = before.saturating_add(count);
        if before <= EXPR_COUNT_MAX && self.expr_count > EXPR_COUNT_MAX {
            let message = format!("a flow has at most {EXPR_COUNT_MAX} expressions");
            let help = "cut the flow into several";
            self.report(Code::TooLarge, node.span.clone(), &message, help);
        }
        self.expr_count <= EXPR_COUNT_MAX
    }
}

/// What was read of a field that may be absent. An absent field is fine; one that could not be read
/// is a mistake, and has been reported.
fn optional<T>(read: Option<Option<T>>) -> Option<Option<T>> {
    read.map_or(Some(None), |read| read.map(Some))
}
