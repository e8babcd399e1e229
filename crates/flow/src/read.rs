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
    };
    for mistake in mistakes {
        reader.report(mistake.code, mistake.span, &mistake.message, mistake.help);
    }
    let flow = tree.and_then(|tree| reader.flow(&tree));
    (flow, reader.diagnostics)
}

/// The state of one reading.
struct Reader<'s> {
    file: &'s str,
    source: &'s str,
    diagnostics: Vec<Diagnostic>,
    /// The flow's constants, known before any step is read.
    env: Value,
}

impl Reader<'_> {
    fn report(&mut self, code: Code, span: Range<usize>, message: &str, help: &str) {
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
}
