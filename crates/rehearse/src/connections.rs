//! The connections of a rehearsal: those that its flow uses.

use std::collections::BTreeMap;

use semel_flow::Flow;
use semel_flow::release::Ask;
use serde_json::{Value, json};

/// The connections that a flow uses, each with what a plain one of the kind looks like.
pub(crate) fn used_connections(flow: &Flow) -> BTreeMap<String, Value> {
    let mut used = BTreeMap::new();
    for step in &flow.steps {
        if let Some(name) = step.connection() {
            let usual = usual_connection(step.kind().as_str());
            used.entry(name.to_owned()).or_insert(usual);
        }
        if let Some(probe) = step.guard.probe()
            && let Some(name) = probe.connection()
        {
            let kind = match &probe.ask {
                Ask::Db { .. } => "db",
                Ask::Http { .. } | Ask::Marker => "http",
            };
            let usual = usual_connection(kind);
            used.entry(name.to_owned()).or_insert(usual);
        }
    }
    used
}

/// A connection for a kind of step that honours no keys.
fn usual_connection(kind: &str) -> Value {
    let to = match kind {
        "db" => json!({ "postgres": { "host": "db.invalid", "database": "d", "user": "u" } }),
        "ssh" => json!({ "ssh": {
            "host": "ssh.invalid", "user": "u", "secret": "s", "host_key": "SHA256:x" } }),
        "notify" => json!({ "smtp": {
            "host": "smtp.invalid", "from": "semel@rehearsal.invalid" } }),
        "llm" => json!({ "llm": {
            "shape": "openai", "base_url": "https://llm.invalid", "secret": "s", "model": "m" } }),
        _ => json!({ "http": { "base_url": "https://http.invalid" } }),
    };
    json!({ "to": to })
}
