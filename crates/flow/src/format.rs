//! Formatting: the fields of a file in the order of the grammar, indented alike.
//!
//! Comments stay with what they stand at, and words stay as they were written. What is written
//! means what was read: the two are compared before anything is given back.

mod comments;
mod emit;
mod scalar;

use comments::Comments;
use emit::Emitter;

use crate::diagnostic::{Code, Diagnostic, Report};
use crate::expr::with_deep_stack;
use crate::grammar::FieldType;
use crate::language::FLOW;
use crate::yaml::{self, Kind, Node};

/// The longest line that a list or a map in brackets may make.
const LINE_CHARS_MAX: usize = 100;

/// Formats the text of a flow. `file` is what diagnostics call it.
///
/// # Errors
///
/// If the text is not YAML as flows use it; other mistakes do not matter here.
pub fn format(file: &str, source: &str) -> Result<String, Vec<Diagnostic>> {
    with_deep_stack(|| format_here(file, source))
}

fn format_here(file: &str, source: &str) -> Result<String, Vec<Diagnostic>> {
    let mut report = Report::new(file, source);
    let (tree, mistakes) = yaml::parse(source);
    for mistake in mistakes {
        report.add(mistake.code, mistake.span, &mistake.message, mistake.help);
    }
    let Some(tree) = tree.filter(|_| report.diagnostics.is_empty()) else {
        return Err(report.diagnostics);
    };
    let comments = Comments::gather(source, &tree);
    let mut emitter = Emitter::new(source, comments);
    emitter.file(&tree, FieldType::Map(&FLOW));
    let formatted = emitter.finish();
    let again = yaml::parse(&formatted);
    let same = again.1.is_empty() && again.0.is_some_and(|again| alike(&tree, &again));
    if same {
        return Ok(formatted);
    }
    let message = "formatting would change the meaning of this file";
    let help = "write the unusual part more simply, and report this";
    Err(vec![report.make(Code::YamlSyntax, 0..0, message, help)])
}

/// Whether two trees say the same, the order of fields aside.
fn alike(one: &Node, other: &Node) -> bool {
    match (&one.kind, &other.kind) {
        (Kind::Scalar(one), Kind::Scalar(other)) => {
            let plain = |style| style == yaml::Style::Plain;
            one.text == other.text && plain(one.style) == plain(other.style)
        }
        (Kind::List(one), Kind::List(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| alike(one, other))
        }
        (Kind::Map(one), Kind::Map(other)) => {
            one.len() == other.len()
                && one.iter().all(|entry| {
                    let twin = other.iter().find(|twin| twin.key == entry.key);
                    twin.is_some_and(|twin| alike(&entry.value, &twin.value))
                })
        }
        (Kind::Scalar(_) | Kind::List(_) | Kind::Map(_), _) => false,
    }
}
