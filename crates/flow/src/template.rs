//! Templates: values with holes. `${{ … }}` inside any text is evaluated when a step is rendered.
//!
//! A text that is one hole and nothing else becomes the value itself, with its type; otherwise the
//! value is spliced into the text. `$${{` stands for a `${{` that is meant as text.

mod text;
mod tree;

#[cfg(test)]
mod tests;

pub use text::TextTemplate;
pub(crate) use text::percent_encoded;
pub use tree::Template;

use std::collections::BTreeMap;

use crate::expr::{Expr, ExprError, ExprErrorKind, hole_end};

/// Names and texts with holes, sorted by name.
pub type TextMap<T> = BTreeMap<String, T>;

const OPEN: &str = "${{";
const CLOSE: &str = "}}";
const ESCAPED: &str = "$${{";

/// One piece of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(String),
    Hole(Expr),
}

/// Cuts a text into pieces. Every hole that cannot be read is reported, with its place in the text.
pub(crate) fn pieces(text: &str, roots: &[&str]) -> Result<Vec<Piece>, Vec<ExprError>> {
    let mut pieces = Vec::new();
    let mut errors = Vec::new();
    let mut plain = String::new();
    let mut at = 0;
    while let Some(found) = text[at..].find(OPEN) {
        let open = at + found;
        if text[..open].ends_with('$') {
            plain.push_str(&text[at..open - 1]);
            plain.push_str(OPEN);
            at = open + OPEN.len();
            continue;
        }
        plain.push_str(&text[at..open]);
        let inner = open + OPEN.len();
        let Some(length) = hole_end(&text[inner..]) else {
            errors.push(unclosed(open));
            return Err(errors);
        };
        match Expr::compile_here(&text[inner..inner + length], roots) {
            Ok(expr) => {
                push_text(&mut pieces, &mut plain);
                pieces.push(Piece::Hole(expr));
            }
            Err(error) => errors.push(ExprError {
                offset: error.offset + inner,
                ..error
            }),
        }
        at = inner + length + CLOSE.len();
    }
    plain.push_str(&text[at..]);
    push_text(&mut pieces, &mut plain);
    if errors.is_empty() {
        Ok(pieces)
    } else {
        Err(errors)
    }
}

fn push_text(pieces: &mut Vec<Piece>, plain: &mut String) {
    if !plain.is_empty() {
        pieces.push(Piece::Text(std::mem::take(plain)));
    }
}

fn unclosed(offset: usize) -> ExprError {
    ExprError {
        kind: ExprErrorKind::Syntax,
        offset,
        len: OPEN.len(),
        message: "this `${{` is never closed".to_owned(),
        fix: "close it with `}}`, or write `$${{` where text is meant".to_owned(),
    }
}

/// The text from which the pieces can be read again.
pub(crate) fn spell(pieces: &[Piece]) -> String {
    pieces
        .iter()
        .map(|piece| match piece {
            Piece::Text(text) => text.replace(OPEN, ESCAPED),
            Piece::Hole(expr) => format!("{OPEN} {expr} {CLOSE}"),
        })
        .collect()
}

/// The expressions of the pieces.
pub(crate) fn holes(pieces: &[Piece]) -> impl Iterator<Item = &Expr> {
    pieces.iter().filter_map(|piece| match piece {
        Piece::Hole(expr) => Some(expr),
        Piece::Text(_) => None,
    })
}
