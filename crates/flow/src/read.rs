//! From the tree of a YAML file to the tree of a flow.
//!
//! Reading continues after a mistake: what cannot be read is absent, and the rest is read all the
//! same, so that an author sees every mistake at once.

mod expression;
mod record;
mod scalar;
mod template;

use std::ops::Range;

use crate::diagnostic::{Code, Report};
use crate::language::FLOW;
use crate::tree::Record;
use crate::yaml::{self, Node};

/// Reads a file. Must be called on a deep stack: expressions are parsed along the way.
pub(crate) fn file(report: &mut Report<'_>) -> Option<Record> {
    let (tree, mistakes) = yaml::parse(report.source);
    for mistake in mistakes {
        report.add(mistake.code, mistake.span, &mistake.message, mistake.help);
    }
    let mut reader = Reader {
        source: report.source,
        report,
        items: vec![],
        expr_count: 0,
        step_count: 0,
    };
    tree.and_then(|tree| reader.record(&tree, &FLOW))
}

/// Expressions of one file. Each costs its parser some 50 microseconds.
const EXPR_COUNT_MAX: usize = 5_000;

/// The state of one reading.
struct Reader<'r, 's> {
    source: &'s str,
    report: &'r mut Report<'s>,
    /// What the `foreach`es around this place call their items.
    items: Vec<String>,
    expr_count: usize,
    step_count: usize,
}

impl Reader<'_, '_> {
    fn report(&mut self, code: Code, span: Range<usize>, message: &str, help: &str) {
        self.report.add(code, span, message, help);
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
            let help = "split the flow into several";
            self.report(Code::TooLarge, node.span.clone(), &message, help);
        }
        self.expr_count <= EXPR_COUNT_MAX
    }
}
