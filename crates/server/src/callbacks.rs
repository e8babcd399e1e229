//! `/callbacks/{token}`: completes a run's wait. The token is the only credential.
//!
//! Only `POST` does anything. Mail scanners and link previews fetch every address they see, so
//! `GET` shows a page that says what to do and changes nothing.

use axum::Extension;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY};
use axum::http::{HeaderName, HeaderValue};
use axum::response::{Html, IntoResponse, Response};
use semel_api::Code;
use semel_engine::CallbackError;

use crate::answer::{self, Answered};
use crate::app::App;
use crate::body::Payload;
use crate::query::Named;
use crate::rate_limit::Peer;
use crate::waits::{refuse, view_called};

/// A secret address must not leak by a referrer or a cache.
const DISCREET: [(HeaderName, HeaderValue); 2] = [
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (CACHE_CONTROL, HeaderValue::from_static("no-store")),
];

const PAGE: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
    <title>Callback</title>\n<h1>This address takes a callback</h1>\n\
    <p>Nothing has happened. To resume what waits here, send a <code>POST</code> request to this \
    address, with JSON or without a body. Sending it twice does no harm.</p>\n</html>\n";

/// Completes the wait. A repeat gets the response to the first.
pub(crate) async fn receive(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    token: Named,
    payload: Payload,
) -> impl IntoResponse {
    (DISCREET, call_back(&app, peer, &token, &payload).await)
}

async fn call_back(app: &App, peer: Peer, token: &Named, payload: &Payload) -> Answered {
    let called = app.engine.call_back(token.as_str(), &payload.0).await;
    let called = called.map_err(|error| match error {
        // A client that guesses tokens is rate-limited after a while.
        CallbackError::Unknown => app.edge.refuse_unknown(peer, Code::CallbackNotFound),
        error @ (CallbackError::NotJson(_) | CallbackError::Unavailable(_)) => {
            refuse(error, Code::CallbackNotFound)
        }
    })?;
    let mut response = answer::ok(&view_called(&called))?;
    if called.replayed {
        answer::mark_replayed(&mut response);
    }
    Ok(response)
}

/// Says what the address is for. The same for every address, so it reveals nothing.
pub(crate) async fn explain() -> Response {
    let policy = HeaderValue::from_static("default-src 'none'");
    (DISCREET, [(CONTENT_SECURITY_POLICY, policy)], Html(PAGE)).into_response()
}
