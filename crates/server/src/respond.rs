//! Responses of hooks that say more than 202: a run's result, and what a source asks before it delivers.
//!
//! A response that is held costs a task and a socket, and nothing of the run depends on it. There are so
//! many of them at most; beyond that a sender gets 202 at once, as after `within`.

use std::num::NonZeroU32;

use axum::http::header::{ALLOW, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use semel_engine::Accepted;
use semel_model::Span;
use semel_model::run::RunState;
use serde_json::value::RawValue;

use crate::answer::{self, Answered};
use crate::app::App;
use crate::error::{ApiError, chain};
use crate::intake;
use crate::runs;

/// How many responses a server holds at once.
pub(crate) const HELD_RESPONSES_MAX: usize = 1_024;

/// How many of them are of one namespace, which must not take the places of the others.
pub(crate) const HELD_RESPONSES_EACH: usize = 256;

/// The header that names the run where the body is its result.
const RUN: HeaderName = HeaderName::from_static("semel-run");

const ALLOWED_ORIGIN: HeaderName = HeaderName::from_static("webhook-allowed-origin");
const ALLOWED_RATE: HeaderName = HeaderName::from_static("webhook-allowed-rate");

const ANY: HeaderValue = HeaderValue::from_static("*");
const NO_SNIFFING: HeaderValue = HeaderValue::from_static("nosniff");

/// A response that waits for the end of its run.
pub(crate) struct Hold {
    /// Whose place it takes.
    pub(crate) namespace: String,
    /// How long it waits.
    pub(crate) within: Span,
}

/// Responds to a delivery that has a run: at once, or with the run's end where the trigger says so.
pub(crate) async fn respond(app: &App, accepted: Accepted, hold: Option<Hold>) -> Answered {
    match hold {
        Some(hold) => Box::pin(respond_with_end(app, accepted, hold)).await,
        None => intake::receipt(StatusCode::ACCEPTED, &accepted, false),
    }
}

async fn respond_with_end(app: &App, mut accepted: Accepted, hold: Hold) -> Answered {
    if accepted.state == RunState::Active
        && let Some(_place) = app.held_responses.take(hold.namespace)
    {
        match runs::await_end(app, accepted.run, hold.within.to_duration()).await {
            Ok(Some(snapshot)) => {
                accepted.state = snapshot.state;
                (accepted.result, accepted.fault) = (snapshot.result, snapshot.fault);
            }
            Ok(None) => {}
            // The delivery is committed, whatever the run came to: a repeat gets its answer.
            Err(error) => tracing::debug!(error = %chain(&error), "a held response reads no run"),
        }
    }
    match accepted.state {
        RunState::Succeeded => result_of(&accepted),
        RunState::Failed | RunState::Cancelled | RunState::Superseded => {
            intake::receipt(StatusCode::UNPROCESSABLE_ENTITY, &accepted, false)
        }
        RunState::Active | RunState::InDoubt | RunState::NeedsReview | RunState::Quarantined => {
            intake::receipt(StatusCode::ACCEPTED, &accepted, false)
        }
    }
}

/// The result of a run, as the whole body.
fn result_of(accepted: &Accepted) -> Answered {
    let text = accepted.result.as_deref().unwrap_or("null");
    let result: &RawValue = serde_json::from_str(text)
        .map_err(|_| ApiError::internal("a stored result that is not JSON"))?;
    let mut response = answer::ok(&result)?;
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, NO_SNIFFING);
    if let Ok(run) = HeaderValue::try_from(accepted.run.to_string()) {
        headers.insert(RUN, run);
    }
    if accepted.replayed {
        answer::mark_replayed(&mut response);
    }
    Ok(response)
}

/// Sends a challenge back, as text and nothing else. The engine lets only plain ones through.
pub(crate) fn challenge(text: String) -> Response {
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    let headers = [(CONTENT_TYPE, plain), (X_CONTENT_TYPE_OPTIONS, NO_SNIFFING)];
    (StatusCode::OK, headers, text).into_response()
}

/// Allows every origin to deliver, at the rate of the server in requests a minute. What came is not
/// repeated.
pub(crate) fn allowed(rate: Option<NonZeroU32>) -> Response {
    let rate = rate.map_or(ANY, |rate| HeaderValue::from(u64::from(rate.get()) * 60));
    let headers = [
        (ALLOW, HeaderValue::from_static("POST")),
        (ALLOWED_ORIGIN, ANY),
        (ALLOWED_RATE, rate),
    ];
    (StatusCode::OK, headers).into_response()
}
