//! Successful responses.

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use crate::error::ApiError;
use crate::links::without_links;

/// Marks the response to a repeated request.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What a handler returns.
pub(crate) type Answered = Result<Response, ApiError>;

/// Answers 200.
pub(crate) fn ok<T: Serialize>(body: &T) -> Answered {
    json(StatusCode::OK, body)
}

/// Answers 200 to a worker, which gets its task's input unredacted: passing a link on may be its
/// work.
pub(crate) fn ok_to_worker<T: Serialize>(body: &T) -> Answered {
    write(StatusCode::OK, body, |text| text)
}

/// Answers with a status and a body. A link that decides an approval is only for the person it was
/// sent to, so every such link is redacted here.
pub(crate) fn json<T: Serialize>(status: StatusCode, body: &T) -> Answered {
    write(status, body, without_links)
}

fn write<T: Serialize>(status: StatusCode, body: &T, clean: impl Fn(String) -> String) -> Answered {
    match serde_json::to_string(body) {
        Ok(text) => Ok((status, [(CONTENT_TYPE, JSON)], clean(text)).into_response()),
        Err(_) => Err(ApiError::internal("an answer that is not JSON")),
    }
}

/// Answers 200 with JSON that takes a share of the memory until it was sent.
pub(crate) fn with_memory<M: Send + 'static>(text: String, memory: Option<M>) -> Response {
    let body = bytes_with_memory(text, memory);
    (StatusCode::OK, [(CONTENT_TYPE, JSON)], body).into_response()
}

/// A body that takes a share of the memory until it was sent.
pub(crate) fn bytes_with_memory<M: Send + 'static>(text: String, memory: Option<M>) -> Bytes {
    Bytes::from_owner(HeldText {
        text,
        _memory: memory,
    })
}

/// A body and the memory that it takes.
struct HeldText<M> {
    text: String,
    _memory: Option<M>,
}

impl<M> AsRef<[u8]> for HeldText<M> {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

/// JSON that was stored as text.
pub(crate) fn read_json(text: Option<&str>) -> Option<Value> {
    text.and_then(|text| serde_json::from_str(text).ok())
}

/// Marks a response as one that was given before.
pub(crate) fn mark_replayed(response: &mut Response) {
    let yes = HeaderValue::from_static("true");
    response.headers_mut().insert(REPLAYED, yes);
}
