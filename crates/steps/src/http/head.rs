//! The head of a request: what an author may say in it, and what not.

use hyper::Method;
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
    RANGE,
};
use semel_model::request::HttpRequest;
use semel_model::{EffectId, Fault};
use url::Url;

/// Headers that say where a request ends or who it is for: two readers that disagree about them
/// see two requests where one was sent.
const OURS: [&str; 11] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Headers that go along when a redirect leads to another origin. All others may be a credential.
const HARMLESS: [HeaderName; 4] = [ACCEPT, ACCEPT_LANGUAGE, CONTENT_TYPE, RANGE];

/// The key's usual header.
const KEY_HEADER: &str = "idempotency-key";

/// Reads an address that a request may go to.
pub(super) fn read_url(text: &str) -> Result<Url, Fault> {
    // URL parsers drop tabs and line breaks silently: what was checked would not be what is sent.
    if text.chars().any(|c| c.is_control() || c == ' ') {
        return Err(refuse("an address with spaces or control characters"));
    }
    let url = Url::parse(text).map_err(|error| refuse(&format!("the address ({error})")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refuse("an address that is neither http nor https"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        let what = "an address with user and password in it (use a connection)";
        return Err(refuse(what));
    }
    match url.host_str() {
        Some(host) if !host.is_empty() => Ok(url),
        Some(_) | None => Err(refuse("an address without a host")),
    }
}

/// The request's method.
pub(super) fn read_method(request: &HttpRequest) -> Result<Method, Fault> {
    match Method::from_bytes(request.method.as_bytes()) {
        // It asks a proxy for a tunnel, whose content is not checked.
        Ok(Method::CONNECT) | Err(_) => Err(refuse(&format!("the method {:?}", request.method))),
        Ok(method) => Ok(method),
    }
}

/// The request's own headers, and the effect's key.
pub(super) fn read_headers(
    request: &HttpRequest,
    key: Option<EffectId>,
) -> Result<HeaderMap, Fault> {
    let mut headers = HeaderMap::with_capacity(request.headers.len() + 2);
    for (name, value) in &request.headers {
        let (name, value) = read_header(name, value)?;
        headers.append(name, value);
    }
    if !headers.contains_key(ACCEPT_ENCODING) {
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    }
    // The effect's key goes out on every call that can carry it, whatever the guard.
    if let Some(key) = key {
        let header = request
            .key_header
            .as_deref()
            .filter(|name| !name.is_empty());
        let (name, value) = read_header(header.unwrap_or(KEY_HEADER), &key.to_string())?;
        if !headers.contains_key(&name) {
            headers.insert(name, value);
        }
    }
    Ok(headers)
}

/// One header, where it is none of ours.
pub(super) fn read_header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), Fault> {
    let header = HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| refuse(&format!("the header {name:?}")))?;
    if OURS.contains(&header.as_str()) {
        return Err(refuse(&format!("the header {name:?} of one's own")));
    }
    let value = HeaderValue::from_str(value)
        .map_err(|_| refuse(&format!("the value of the header {name:?}")))?;
    Ok((header, value))
}

/// What of the headers may be shown to another origin.
pub(super) fn without_credentials(headers: &HeaderMap) -> HeaderMap {
    let harmless = |name: &HeaderName| HARMLESS.contains(name) || *name == ACCEPT_ENCODING;
    let kept = headers.iter().filter(|(name, _)| harmless(name));
    kept.map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn refuse(what: &str) -> Fault {
    Fault::permanent("bad-request", format!("{what} cannot be sent"))
}
