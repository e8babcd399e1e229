//! Text with holes, for the places where text has a grammar: addresses and headers.

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::{Piece, holes, pieces, spell};
use crate::expr::{EvalError, EvalErrorKind, Expr, ExprError, Scope, with_deep_stack};

/// A text with holes. What a value may do in it depends on where the text goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextTemplate {
    pieces: Vec<Piece>,
}

impl TextTemplate {
    /// Reads a text whose holes may name the given roots.
    ///
    /// # Errors
    ///
    /// Every hole that is not an expression, with its place in the text.
    pub fn compile(text: &str, roots: &[&str]) -> Result<Self, Vec<ExprError>> {
        with_deep_stack(|| Self::compile_here(text, roots))
    }

    /// Like [`TextTemplate::compile`], for a caller that already stands on a deep stack.
    pub(crate) fn compile_here(text: &str, roots: &[&str]) -> Result<Self, Vec<ExprError>> {
        pieces(text, roots).map(|pieces| Self { pieces })
    }

    /// The text with each value as it is.
    ///
    /// # Errors
    ///
    /// If a hole cannot be evaluated, or yields something that is not text.
    pub fn render(&self, scope: &Scope<'_>) -> Result<String, EvalError> {
        self.render_with(scope, |_, value| Ok(value))
    }

    /// The text as part of an address: a value stays within its path segment or parameter.
    ///
    /// # Errors
    ///
    /// As [`TextTemplate::render`], and where a value would leave a path segment empty or walk up.
    pub fn render_url(&self, scope: &Scope<'_>) -> Result<String, EvalError> {
        let url = self.render_with(scope, |before, value| {
            // An empty id turns `DELETE /customers/42` into `DELETE /customers/`.
            if value.is_empty() && !before.contains('?') {
                return Err(EvalErrorKind::Invalid(
                    "a value in a path is empty".to_owned(),
                ));
            }
            Ok(percent_encoded(&value))
        })?;
        if !self.is_constant() && walks(&url) {
            let fault =
                EvalErrorKind::Invalid("a value makes a path walk up with `.` or `..`".to_owned());
            return Err(fault.at(0));
        }
        Ok(url)
    }

    /// The text as a header's value.
    ///
    /// # Errors
    ///
    /// As [`TextTemplate::render`], and where a value would end the header.
    pub fn render_header(&self, scope: &Scope<'_>) -> Result<String, EvalError> {
        self.render_with(scope, |_, value| {
            if value.contains(['\r', '\n', '\0']) {
                return Err(EvalErrorKind::Invalid(
                    "a header cannot hold a line break".to_owned(),
                ));
            }
            Ok(value)
        })
    }

    /// The expressions in the text.
    pub fn exprs(&self) -> impl Iterator<Item = &Expr> {
        holes(&self.pieces)
    }

    /// Whether the text has no hole.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        self.exprs().next().is_none()
    }

    /// The text up to its first hole.
    #[must_use]
    pub fn prefix(&self) -> &str {
        match self.pieces.first() {
            Some(Piece::Text(text)) => text,
            Some(Piece::Hole(_)) | None => "",
        }
    }

    /// The text with the flow's constants in their place.
    pub(crate) fn with_env(self, env: &Value) -> Result<Self, EvalError> {
        self.fold("env", &Scope::new().with("env", env))
    }

    /// Puts the text of known values in place of the holes that read nothing else.
    fn fold(self, known: &str, scope: &Scope<'_>) -> Result<Self, EvalError> {
        let mut folded: Vec<Piece> = Vec::new();
        for piece in self.pieces {
            let text = match piece {
                Piece::Hole(expr) if expr.references().iter().all(|path| path.root == known) => {
                    text_of(&expr, scope)?
                }
                Piece::Hole(_) => {
                    folded.push(piece);
                    continue;
                }
                Piece::Text(text) => text,
            };
            match folded.last_mut() {
                Some(Piece::Text(last)) => last.push_str(&text),
                Some(Piece::Hole(_)) | None => folded.push(Piece::Text(text)),
            }
        }
        Ok(Self { pieces: folded })
    }

    fn render_with(
        &self,
        scope: &Scope<'_>,
        mut admit: impl FnMut(&str, String) -> Result<String, EvalErrorKind>,
    ) -> Result<String, EvalError> {
        let mut rendered = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => rendered.push_str(text),
                Piece::Hole(expr) => {
                    let value = text_of(expr, scope)?;
                    let value = admit(&rendered, value).map_err(|fault| fault.at(0))?;
                    rendered.push_str(&value);
                }
            }
        }
        Ok(rendered)
    }
}

impl Serialize for TextTemplate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&spell(&self.pieces))
    }
}

/// A value as it reads in the middle of a text.
pub(super) fn text_of(expr: &Expr, scope: &Scope<'_>) -> Result<String, EvalError> {
    match expr.eval(scope)? {
        Value::String(text) => Ok(text),
        Value::Bool(value) => Ok(value.to_string()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Null => Err(unspliced(
            expr,
            "null, which is no text: write `default(…, \"\")`",
        )),
        Value::Array(_) | Value::Object(_) => Err(unspliced(
            expr,
            "a list or a map, which is no text: write `json(…)` around it",
        )),
    }
}

fn unspliced(expr: &Expr, why: &str) -> EvalError {
    EvalErrorKind::Invalid(format!("`{expr}` yields {why}")).at(0)
}

/// Percent-encodes all but RFC 3986's unreserved characters.
pub(crate) fn percent_encoded(value: &str) -> String {
    use std::fmt::Write as _;
    let mut encoded = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// Whether the path of an address has a `.` or `..` segment, which a client would resolve away.
fn walks(url: &str) -> bool {
    let path = url.split(['?', '#']).next().unwrap_or(url);
    path.split('/')
        .any(|segment| segment == "." || segment == "..")
}
