//! Problems: the body of an error response (RFC 9457).

use semel_model::{RunId, Span};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::code::Code;
use crate::schema;

/// Why a request was not carried out, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// A URI for the kind of problem; holds the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind of problem, for people.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What is wrong this time.
    pub detail: String,
    /// The stable word for the kind; a server may be newer than its client's list.
    pub code: String,
    /// What to do.
    pub hint: String,
    /// The run that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::RunId>)]
    pub run: Option<RunId>,
    /// How long to wait before a retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Span>)]
    pub retry_in: Option<Span>,
    /// What is wrong with a flow's text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<Diagnostic>,
}

impl Problem {
    /// A problem of a kind, with what is wrong this time.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            kind: code.uri(),
            title: code.title().to_owned(),
            status: code.status(),
            detail: detail.into(),
            code: code.as_str().to_owned(),
            hint: code.hint().to_owned(),
            run: None,
            retry_in: None,
            diagnostics: Vec::new(),
        }
    }

    /// Names the run that it is about.
    #[must_use]
    pub fn about(mut self, run: RunId) -> Self {
        self.run = Some(run);
        self
    }

    /// Says when to retry.
    #[must_use]
    pub fn retry_in(mut self, span: Span) -> Self {
        self.retry_in = Some(span);
        self
    }

    /// The kind, where this client knows it.
    pub fn code(&self) -> Option<Code> {
        self.code.parse().ok()
    }
}

/// One mistake in a flow's text, at its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Diagnostic {
    /// The kind of mistake; its page is `docs/errors/<code>.md`.
    pub code: String,
    /// `error` or `warning`.
    pub severity: String,
    /// The file.
    pub file: String,
    /// The line, from one.
    pub line: usize,
    /// The character of the line, from one.
    pub column: usize,
    /// How many characters of the line are meant.
    pub width: usize,
    /// The line itself.
    pub text: String,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub help: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_says_what_rfc_9457_asks_for() {
        let problem = Problem::new(Code::KeyMissing, "no key came with the request");

        let wire = serde_json::to_value(&problem).unwrap();

        assert_eq!(
            wire,
            serde_json::json!({
                "type": "urn:semel:problem:key-missing",
                "title": "The request has no key",
                "status": 400,
                "detail": "no key came with the request",
                "code": "key-missing",
                "hint": Code::KeyMissing.hint(),
            })
        );
    }

    #[test]
    fn a_problem_of_a_newer_server_is_still_a_problem() {
        let wire = r#"{"type":"urn:semel:problem:new","title":"New","status":418,"detail":"d",
            "code":"new","hint":"h","brand_new":1}"#;

        let problem: Problem = serde_json::from_str(wire).unwrap();

        assert_eq!(problem.code(), None);
    }
}
