//! Any answer of the API as it is.

use axum::http::HeaderValue;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};

use super::visit::Visit;
use super::words;
use crate::answer::Answered;
use crate::error::PROBLEM_JSON;

/// `GET /console/{namespace}/json/…`: what the API answers, for a browser that has no token to send.
pub(super) async fn json(visit: Visit) -> Answered {
    let parts: Vec<String> = visit.part("rest").split('/').map(words::encoded).collect();
    let address = format!("/v1/{}?{}", parts.join("/"), visit.query_text());
    let mut response = visit.fetch(&address).await?;
    let headers = response.headers_mut();
    let attached = headers.contains_key(CONTENT_DISPOSITION);
    let kind = headers.get(CONTENT_TYPE);
    let is_json = kind.is_some_and(|kind| kind == "application/json" || kind == PROBLEM_JSON);
    // Anything else may be what a sender sent: it is neither a page nor a script of this console.
    if attached || !is_json {
        let attachment = HeaderValue::from_static("attachment");
        headers.insert(CONTENT_DISPOSITION, attachment);
        let bytes = HeaderValue::from_static("application/octet-stream");
        headers.insert(CONTENT_TYPE, bytes);
    }
    Ok(response)
}
