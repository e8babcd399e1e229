//! Requests: addresses whose host no value can choose, headers that are the author's to set.

use std::collections::HashSet;

use serde_json::Value as Json;

use super::super::Check;
use crate::diagnostic::Code;
use crate::effect::method;
use crate::expr::Scope;
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

impl<'t> Check<'_, 't, '_> {
    pub(super) fn http(&mut self, body: &'t Record) {
        let Some(method) = method(body) else {
            return;
        };
        if let Some(Value::Holes(url, _)) = body.value(method) {
            self.url(body, method, url);
        }
        let sent: Vec<&str> = ["json", "text", "form", "multipart", "file"]
            .into_iter()
            .filter(|field| body.has(field))
            .collect();
        if matches!(method, "get" | "head") && !sent.is_empty() {
            let message = format!("a `{method}` has no body");
            let help = "send the values in `query`, or use `post`";
            self.add(Code::FieldConflict, body.name_span(sent[0]), &message, help);
        }
        if let [kept, other, ..] = sent[..] {
            let help = format!("keep `{kept}` or `{other}`");
            let span = body.name_span(other);
            self.add(Code::FieldConflict, span, "a request has one body", &help);
        }
        if body.has("pages") && method != "get" {
            let help = "use `get`, or leave `pages` out";
            let span = body.name_span("pages");
            self.add(Code::FieldConflict, span, "only a `get` has pages", help);
        }
        self.headers(body);
    }

    /// An address. Constants of `env` are put in their place first, so that a host may be one.
    fn url(&mut self, body: &Record, method: &str, template: &TextTemplate) {
        let span = body.value_span(method);
        match folded(template, &env_of(self.outline.flow)) {
            Ok(folded) => {
                let connected = body.has("connection");
                if let Some((message, help)) = fault(&folded, connected) {
                    self.add(Code::UrlInvalid, span, message, help);
                }
            }
            Err(message) => {
                self.add(Code::UrlInvalid, span, &message, "declare it under `env`");
            }
        }
    }

    fn headers(&mut self, body: &Record) {
        let Some(Value::Named(entries)) = body.value("headers") else {
            return;
        };
        let mut known = HashSet::new();
        for entry in entries {
            let lower = entry.name.to_ascii_lowercase();
            let span = entry.name_span.clone();
            if !is_header_name(&entry.name) {
                let message = format!("`{}` is no name of a header", entry.name);
                self.add(Code::HeaderInvalid, span, &message, "write `x-name: value`");
            } else if RESERVED_HEADERS.contains(&lower.as_str()) {
                let message = format!("the header `{lower}` is not the flow's to set");
                let help = match lower.as_str() {
                    "idempotency-key" => "leave it out: every call carries its effect's key",
                    _ => "leave it out: it follows from the address and the body",
                };
                self.add(Code::HeaderInvalid, span, &message, help);
            } else if !known.insert(lower.clone()) {
                let message = format!("`{lower}` stands twice under `headers`");
                self.add(Code::DuplicateField, span, &message, "keep one of them");
            }
        }
    }
}

/// Whether a text can be the name of a header (RFC 9110).
pub(crate) fn is_header_name(name: &str) -> bool {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(token)
}

/// The flow's constants as one map.
pub(crate) fn env_of(flow: &Record) -> Json {
    let mut env = serde_json::Map::new();
    if let Some(Value::Named(entries)) = flow.value("env") {
        for entry in entries {
            if let Value::Json(value) = &entry.value {
                env.insert(entry.name.clone(), value.clone());
            }
        }
    }
    Json::Object(env)
}

/// An address with the constants of `env` in their place.
pub(crate) fn folded(template: &TextTemplate, env: &Json) -> Result<TextTemplate, String> {
    let scope = Scope::new().with("env", env);
    let folded = template.clone().fold("env", &scope);
    folded.map_err(|error| error.to_string())
}

/// What is wrong with an address, and the mend.
fn fault(template: &TextTemplate, connected: bool) -> Option<(&'static str, &'static str)> {
    let prefix = template.prefix();
    if connected {
        return (!prefix.starts_with('/')).then_some((
            "with a connection, an address is a path and begins with `/`",
            "leave the host out: it is kept with the connection",
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
