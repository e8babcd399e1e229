//! API errors, as problems (RFC 9457).
//!
//! A client's mistake is reported to the client and not logged. A defect of Semel is logged here,
//! once.

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use semel_api::types::Diagnostic;
use semel_api::{Code, Problem};
use semel_model::{RunId, Span};
use semel_store::ReadError;
use semel_store::audit::ReasonError;

use crate::links::without_links;

/// After how many milliseconds a client may retry while the database does not answer.
const DATABASE_REST_MS: u64 = 1_000;

/// How soon to retry for a run that a worker holds, in seconds.
const BUSY_REST_SECS: u64 = 1;

/// An error response.
#[derive(Debug)]
pub(crate) struct ApiError(Box<Problem>);

impl ApiError {
    /// An error of this code, with what is wrong this time.
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self(Box::new(Problem::new(code, detail)))
    }

    /// An error whose title says everything.
    pub(crate) fn plain(code: Code) -> Self {
        Self::new(code, code.title())
    }

    /// The database does not answer; nothing was acknowledged.
    pub(crate) fn unavailable() -> Self {
        Self::plain(Code::DatabaseUnavailable).retry_in(Span::from_millis(DATABASE_REST_MS))
    }

    /// The database did not carry a command out, or did not say so.
    pub(crate) fn database(cause: &str) -> Self {
        tracing::warn!(cause, "the database failed a command");
        Self::unavailable()
    }

    /// A worker holds the run.
    pub(crate) fn busy() -> Self {
        Self::plain(Code::RunBusy).retry_in(Span::from_secs(BUSY_REST_SECS))
    }

    /// A defect: a state that cannot occur.
    pub(crate) fn internal(what: &'static str) -> Self {
        tracing::error!(what, "internal error");
        Self::plain(Code::Internal)
    }

    /// Names the run that it is about.
    pub(crate) fn about(self, run: RunId) -> Self {
        Self(Box::new(self.0.about(run)))
    }

    /// Says when to retry.
    pub(crate) fn retry_in(self, span: Span) -> Self {
        Self(Box::new(self.0.retry_in(span)))
    }

    /// Points at what is wrong with a flow's text.
    pub(crate) fn pointing_at(mut self, diagnostics: Vec<Diagnostic>) -> Self {
        self.0.diagnostics = diagnostics;
        self
    }

    /// The run whose key came with another payload, where that is what is wrong.
    pub(crate) fn mismatched(&self) -> Option<RunId> {
        let mismatch = self.0.code() == Some(Code::PayloadMismatch);
        self.0.run.filter(|_| mismatch)
    }

    /// Whether the body was beyond the limit.
    pub(crate) fn is_too_large(&self) -> bool {
        self.0.code() == Some(Code::BodyTooLarge)
    }

    /// Says what to do in this case.
    pub(crate) fn with_hint(mut self, hint: String) -> Self {
        self.0.hint = hint;
        self
    }

    /// The error that an API told.
    pub(crate) fn of(problem: Problem) -> Self {
        Self(Box::new(problem))
    }

    /// The problem, for a response that is not JSON.
    pub(crate) fn into_problem(self) -> Problem {
        *self.0
    }

    /// The problem.
    pub(crate) fn problem(&self) -> &Problem {
        &self.0
    }
}

/// A read did not succeed.
impl From<ReadError> for ApiError {
    fn from(error: ReadError) -> Self {
        tracing::warn!(error = %chain(&error), "failed to read from the database");
        Self::unavailable()
    }
}

/// A reason cannot be recorded; nothing was done.
impl From<ReasonError> for ApiError {
    fn from(error: ReasonError) -> Self {
        Self::new(Code::ReasonInvalid, error.to_string())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status);
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // A detail may quote what was sent or stored, including a link that decides an approval.
        let body = without_links(serde_json::to_string(&self.0).unwrap_or_default());
        let mut response = (status, body).into_response();
        response.extensions_mut().insert(IsProblem);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, PROBLEM_JSON);
        if let Some(span) = self.0.retry_in {
            let secs = span.as_millis().div_ceil(1_000).max(1);
            headers.insert(RETRY_AFTER, HeaderValue::from(secs));
        }
        if status == StatusCode::UNAUTHORIZED {
            let asks_for = match self.0.code() {
                Some(Code::SignatureInvalid) => "Signature",
                Some(_) | None => "Bearer",
            };
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(asks_for));
        }
        response
    }
}

/// Marks a response that an error of ours made, whatever its media type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IsProblem;

/// The media type of problems.
pub(crate) const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// An error with its causes, for the log.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use semel_engine::{
        CancelError, ConnectionError, DropError, FlowError, IntakeError, SettleError,
    };

    use super::*;

    #[test]
    fn an_unavailable_database_is_a_503_with_a_retry_time() {
        let response = ApiError::unavailable().into_response();

        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers()[RETRY_AFTER], "1");
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
    }

    #[test]
    fn a_retry_time_is_rounded_up() {
        let refusal = ApiError::plain(Code::SettleTooSoon).retry_in(Span::from_millis(1_001));

        let response = refusal.into_response();

        assert_eq!(response.headers()[RETRY_AFTER], "2");
    }

    #[tokio::test]
    async fn no_refusal_quotes_a_link() {
        let token = "aZ0_-".repeat(18);
        let detail = format!("cannot send to http://x/approvals/{token}");

        let response = ApiError::new(Code::BodyInvalid, detail).into_response();
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await;

        let body = String::from_utf8(body.unwrap().to_vec()).unwrap();
        assert!(body.contains("/approvals/[redacted]"), "{body}");
        assert!(!body.contains(&token));
    }

    #[test]
    fn the_engine_and_the_api_have_one_word_for_one_error() {
        let run = RunId::from_uuid(uuid::Uuid::nil());
        let kind = semel_model::TriggerKind::Api;
        let state = semel_model::effect::EffectState::Done;
        let retry_in = Span::from_secs(1);
        let text = String::new;
        let misfit = || semel_engine::state::FoldError {
            seq: 2,
            event: "done",
            state: text(),
        };
        let pairs: Vec<(&str, ApiError)> = [
            IntakeError::UnknownHook,
            IntakeError::SignatureInvalid,
            IntakeError::UnknownFlow,
            IntakeError::NoTrigger { kind },
            IntakeError::NotJson(text()),
            IntakeError::TooLarge,
            IntakeError::NoKey,
            IntakeError::KeyFailed(text()),
            IntakeError::KeyDeclared,
            IntakeError::InputInvalid(text()),
            IntakeError::Mismatch { run },
            IntakeError::BacklogFull { most: 1 },
            IntakeError::Unavailable(text()),
        ]
        .map(|error| (error.code(), error.into()))
        .into_iter()
        .chain(
            [
                SettleError::Unknown,
                SettleError::NotInDoubt { state },
                SettleError::TooSoon { retry_in },
                SettleError::ResultNeeded(text()),
                SettleError::NotAmendable(text()),
                SettleError::Invalid(text()),
                SettleError::Reason(ReasonError::ZeroByte),
                SettleError::Busy,
                SettleError::Inconsistent(misfit()),
                SettleError::Unavailable(text()),
            ]
            .map(|error| (error.code(), error.into())),
        )
        .chain([CancelError::Unknown, CancelError::Ended].map(|error| (error.code(), error.into())))
        .chain(
            [DropError::Unknown, DropError::RunNotEnded { run }]
                .map(|error| (error.code(), error.into())),
        )
        .chain(
            [
                FlowError::UnknownFlow,
                FlowError::NoDraft,
                FlowError::UnknownRelease,
                FlowError::HookTaken { flow: text() },
            ]
            .map(|error| (error.code(), error.into())),
        )
        .chain(
            [
                ConnectionError::Invalid(text()),
                ConnectionError::InUse { flow: text() },
                ConnectionError::Unknown,
                ConnectionError::Differs,
            ]
            .map(|error| (error.code(), error.into())),
        )
        .collect();

        for (word, refusal) in pairs {
            assert_eq!(refusal.problem().code, word);
        }
    }
}
