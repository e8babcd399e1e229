//! The stylesheet, the script and the icon, which are part of the program.

use std::sync::LazyLock;

use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use sha2::{Digest as _, Sha256};

const CSS: &str = include_str!("../../assets/console.css");
const JS: &str = include_str!("../../assets/console.js");
const ICON: &str = include_str!("../../assets/icon.svg");

/// An address names what it leads to, so that it can be kept for as long as a browser likes.
const FOR_EVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

static CSS_ADDRESS: LazyLock<String> = LazyLock::new(|| address("console.css", CSS));
static JS_ADDRESS: LazyLock<String> = LazyLock::new(|| address("console.js", JS));

fn address(name: &str, content: &str) -> String {
    let digest = hex::encode(&Sha256::digest(content)[..8]);
    format!("/console/{name}?{digest}")
}

/// Where the stylesheet is.
pub(super) fn css_address() -> &'static str {
    &CSS_ADDRESS
}

/// Where the script is.
pub(super) fn js_address() -> &'static str {
    &JS_ADDRESS
}

/// `GET /console/console.css`.
pub(super) async fn css() -> Response {
    asset("text/css; charset=utf-8", CSS)
}

/// `GET /console/console.js`.
pub(super) async fn js() -> Response {
    asset("text/javascript; charset=utf-8", JS)
}

/// `GET /console/icon.svg`.
pub(super) async fn icon() -> Response {
    asset("image/svg+xml", ICON)
}

fn asset(kind: &'static str, content: &'static str) -> Response {
    let kind = HeaderValue::from_static(kind);
    let headers = [(CONTENT_TYPE, kind), (CACHE_CONTROL, FOR_EVER)];
    (headers, content).into_response()
}
