//! Texts as they are written again.

use crate::yaml::{Node, Style};

/// How wide a folded text is written.
const FOLD_CHARS: usize = 90;

/// A text on one line, as it was written where that is possible.
pub(super) fn inline(source: &str, node: &Node) -> Option<String> {
    let scalar = node.as_scalar()?;
    if scalar.text.is_empty() && scalar.style == Style::Plain {
        return Some(String::new());
    }
    let raw = source.get(node.span.clone())?;
    match scalar.style {
        Style::Block => None,
        Style::Plain if raw.contains('\n') => Some(scalar.text.clone()),
        Style::Single | Style::Double if raw.contains('\n') => {
            Some(serde_json::Value::from(scalar.text.as_str()).to_string())
        }
        Style::Plain | Style::Single | Style::Double => Some(raw.to_owned()),
    }
}

/// The header and the lines of a text that does not fit on one.
pub(super) fn block(text: &str) -> (String, Vec<String>) {
    if folds(text) {
        let mut lines = vec![String::new()];
        for word in text.split(' ') {
            let last = lines.len() - 1;
            let line = &mut lines[last];
            if !line.is_empty() && line.chars().count() + word.chars().count() >= FOLD_CHARS {
                lines.push(word.to_owned());
            } else {
                if !line.is_empty() {
                    line.push(' ');
                }
                line.push_str(word);
            }
        }
        return (">-".to_owned(), lines);
    }
    let end = text.len() - text.trim_end_matches('\n').len();
    let chomp = match end {
        0 => "-",
        1 => "",
        _ => "+",
    };
    // Text that begins with a space needs an indicator of where its own indentation begins.
    let indent = if text.starts_with([' ', '\n']) {
        "2"
    } else {
        ""
    };
    let body = text.strip_suffix('\n').unwrap_or(text);
    let lines = body.split('\n').map(str::to_owned).collect();
    (format!("|{indent}{chomp}"), lines)
}

/// Whether a text is words with single spaces between them.
fn folds(text: &str) -> bool {
    !text.is_empty()
        && !text.contains(['\n', '\t', '\r'])
        && !text.contains("  ")
        && !text.starts_with(' ')
        && !text.ends_with(' ')
}
