//! The secrets that are planted: one for each place where one is used.

use std::net::SocketAddr;

use serde_json::{Value, json};

/// A planted secret.
pub(super) struct Canary {
    /// Its name, and that of its connection.
    pub(super) name: &'static str,
    /// What it says.
    pub(super) value: String,
    /// The connection that names it.
    pub(super) connection: Option<Value>,
    /// The action of a flow that uses the connection, or the trigger that it verifies.
    pub(super) used: Used,
}

/// What a planted secret is used for.
pub(super) enum Used {
    /// A step of this action, with `WAY` where the path goes.
    Step(&'static str),
    /// A webhook with these fields.
    Trigger(&'static str),
    /// Given to the server, or made by a destination.
    Apart,
}

const HTTP: &str = "http: { connection: NAME, post: /WAY, json: { note: plain-control-4711 }, \
                    timeout: 2s }\n    guard: review";
const NOTIFY: &str =
    "notify: { connection: NAME, to: someone@example.com, subject: s, text: plain-control-4711 }";

/// All of them, for a destination at an address.
pub(super) fn all(echo: SocketAddr) -> Vec<Canary> {
    let url = format!("http://{echo}");
    let http = |auth: Value| json!({"to": {"http": {"base_url": url, "auth": auth}}});
    let (host, port) = (echo.ip().to_string(), echo.port());
    let token_url = format!("{url}/token");
    let to = |kind: &str, fields: Value| json!({"to": {kind: fields}, "timeout": "3s"});
    let sha256 = format!("SHA256:{}", "A".repeat(43));
    vec![
        step(
            "bearer",
            http(json!({"bearer": {"secret": "bearer"}})),
            HTTP,
        ),
        step(
            "basic",
            http(json!({"basic": {"user": "semel", "secret": "basic"}})),
            HTTP,
        ),
        step(
            "header",
            http(json!({"header": {"name": "x-key", "prefix": "k ", "secret": "header"}})),
            HTTP,
        ),
        step(
            "oauth",
            http(
                json!({"oauth2": {"token_url": token_url, "client_id": "semel", "secret": "oauth"}}),
            ),
            HTTP,
        ),
        step(
            "mtls",
            http(json!({"mtls": {"certificate": "none", "secret": "mtls"}})),
            HTTP,
        ),
        step(
            "postgres",
            to(
                "postgres",
                json!({"host": host, "port": port, "database": "d", "user": "u", "secret": "postgres", "tls": "off"}),
            ),
            "db: { connection: NAME, query: SELECT 1 }",
        ),
        step(
            "smtp",
            to(
                "smtp",
                json!({"host": host, "port": port, "tls": "off", "user": "u", "secret": "smtp", "from": "a@example.com"}),
            ),
            NOTIFY,
        ),
        step(
            "ssh",
            to(
                "ssh",
                json!({"host": host, "port": port, "user": "u", "secret": "ssh", "host_key": sha256}),
            ),
            "ssh: { connection: NAME, command: [\"true\"], timeout: 3s }\n    guard: review",
        ),
        step(
            "slack",
            to("slack", json!({"base_url": url, "secret": "slack"})),
            NOTIFY,
        ),
        step(
            "webhook",
            to(
                "webhook",
                json!({"url": format!("{url}/broken"), "secret": "webhook"}),
            ),
            NOTIFY,
        ),
        step(
            "openai",
            to(
                "llm",
                json!({"shape": "openai", "base_url": url, "secret": "openai", "model": "m"}),
            ),
            "llm: { connection: NAME, prompt: hello }",
        ),
        step(
            "anthropic",
            to(
                "llm",
                json!({"shape": "anthropic", "base_url": url, "secret": "anthropic", "model": "m"}),
            ),
            "llm: { connection: NAME, prompt: hello }",
        ),
        // No server listens there, no host has that name, and the third does not speak TLS.
        step(
            "refused",
            json!({"to": {"http": {"base_url": "http://127.0.0.1:1", "auth": {"bearer": {"secret": "refused"}}}}}),
            HTTP,
        ),
        step(
            "unnamed",
            json!({"to": {"http": {"base_url": "http://nobody.invalid", "auth": {"bearer": {"secret": "unnamed"}}}}}),
            HTTP,
        ),
        step(
            "untrusted",
            json!({"to": {"http": {"base_url": format!("https://{echo}"), "auth": {"bearer": {"secret": "untrusted"}}}}}),
            HTTP,
        ),
        trigger("hook_stripe", "provider: stripe, secret: NAME"),
        trigger("hook_github", "provider: github, secret: NAME"),
        trigger("hook_slack", "provider: slack, secret: NAME"),
        apart("token_fetched"),
        apart("never_used"),
    ]
}

fn step(name: &'static str, connection: Value, action: &'static str) -> Canary {
    Canary {
        connection: Some(connection),
        used: Used::Step(action),
        ..apart(name)
    }
}

fn trigger(name: &'static str, fields: &'static str) -> Canary {
    Canary {
        used: Used::Trigger(fields),
        ..apart(name)
    }
}

fn apart(name: &'static str) -> Canary {
    Canary {
        name,
        value: value(name),
        connection: None,
        used: Used::Apart,
    }
}

/// A text that stands nowhere else. The letters are such that every way of writing them down has
/// something to escape.
fn value(name: &str) -> String {
    let unlike: String = name.chars().rev().collect();
    match name {
        "mtls" | "ssh" => format!(
            "-----BEGIN PRIVATE KEY-----\nY2FuYXJ5{unlike}Zm9yTm9ib2R5\nRWxzZVRoYW5VczEyMzQ1\n\
             -----END PRIVATE KEY-----\n"
        ),
        "webhook" => "whsec_Y2FuYXJ5LWZvci13ZWJob29rcy0xMjM0NTY3ODkw".to_owned(),
        // What goes into a header cannot hold everything.
        _ => format!("c4n-{unlike}-7Q/+x=9~{}", unlike.len()),
    }
}
