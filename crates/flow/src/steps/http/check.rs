//! Requests: addresses whose host no value can choose, headers that are the author's to set.

use std::collections::HashSet;

use super::super::body::BodyCheck;
use super::method;
use crate::diagnostic::Code;
use crate::template::TextTemplate;
use crate::tree::{Record, Value};

/// Headers that belong to the connection or to the engine.
const RESERVED_HEADERS: [&str; 8] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "upgrade",
    "te",
    "trailer",
    "idempotency-key",
];

pub(super) fn check(check: &mut BodyCheck<'_, '_>, body: &Record) {
    let Some(method) = method(body) else {
        return;
    };
    let verb = method.field();
    if let Some(Value::Holes(url, _)) = body.value(verb) {
        check_url(check, body, verb, url);
    }
    let sent: Vec<&str> = ["json", "text", "form", "multipart", "file"]
        .into_iter()
        .filter(|field| body.has(field))
        .collect();
    if method.is_read() && !sent.is_empty() {
        let message = format!("a `{verb}` has no body");
        let help = "send the values in `query`, or use `post`";
        check.add(Code::FieldConflict, body.name_span(sent[0]), &message, help);
    }
    if let [kept, other, ..] = sent[..] {
        let help = format!("keep `{kept}` or `{other}`");
        let span = body.name_span(other);
        check.add(Code::FieldConflict, span, "a request has one body", &help);
    }
    if body.has("pages") && verb != "get" {
        let help = "use `get`, or leave `pages` out";
        let span = body.name_span("pages");
        check.add(Code::FieldConflict, span, "only a `get` has pages", help);
    }
    check_headers(check, body);
}

/// An address. Constants of `env` are put in their place first, so that a host may be one.
fn check_url(check: &mut BodyCheck<'_, '_>, body: &Record, verb: &str, url: &TextTemplate) {
    let span = body.value_span(verb);
    match url.clone().with_env(&check.env()) {
        Ok(url) => {
            if let Some((message, help)) = problem(&url, body.has("connection")) {
                check.add(Code::UrlInvalid, span, message, help);
            }
        }
        Err(error) => {
            let help = "declare it under `env`";
            check.add(Code::UrlInvalid, span, &error.to_string(), help);
        }
    }
}

fn check_headers(check: &mut BodyCheck<'_, '_>, body: &Record) {
    let Some(Value::Named(entries)) = body.value("headers") else {
        return;
    };
    let mut known = HashSet::new();
    for entry in entries {
        let lower = entry.name.to_ascii_lowercase();
        let span = entry.name_span.clone();
        if !is_header_name(&entry.name) {
            let message = format!("`{}` is not a valid header name", entry.name);
            check.add(Code::HeaderInvalid, span, &message, "write `x-name: value`");
        } else if RESERVED_HEADERS.contains(&lower.as_str()) {
            let message = format!("a flow cannot set the header `{lower}`");
            let help = match lower.as_str() {
                "idempotency-key" => "leave it out: every call carries its effect's key",
                _ => "leave it out: it follows from the address and the body",
            };
            check.add(Code::HeaderInvalid, span, &message, help);
        } else if !known.insert(lower.clone()) {
            let message = format!("`{lower}` appears twice under `headers`");
            check.add(Code::DuplicateField, span, &message, "keep one of them");
        }
    }
}

/// Whether a text can be the name of a header (RFC 9110).
pub(crate) fn is_header_name(name: &str) -> bool {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(token)
}

/// What is wrong with an address, and the fix.
fn problem(template: &TextTemplate, connected: bool) -> Option<(&'static str, &'static str)> {
    let prefix = template.prefix();
    if connected {
        return (!prefix.starts_with('/')).then_some((
            "with a connection, an address is a path and begins with `/`",
            "leave the host out: the connection has it",
        ));
    }
    let rest = prefix
        .strip_prefix("https://")
        .or_else(|| prefix.strip_prefix("http://"));
    let Some(rest) = rest else {
        return Some((
            "an address is absolute and begins with https:// or http://",
            "write the host out, keep it in `env`, or name a `connection`: a value must not choose it",
        ));
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    if host.len() == rest.len() && !template.is_constant() {
        return Some((
            "a value must not choose the host",
            "close the host with `/` before the first `${{ }}`",
        ));
    }
    if host.contains('@') {
        return Some((
            "an address cannot hold a name and a password",
            "send an `authorization` header",
        ));
    }
    if host.is_empty() || rest.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Some(("this is not an address", "write https://host/path"));
    }
    None
}
