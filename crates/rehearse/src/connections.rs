//! The connections of a rehearsal: those that its flow uses, and those of the flows that it calls.

use std::collections::BTreeMap;

use semel_flow::release::Ask;
use semel_flow::{Flow, load};
use semel_model::Connection;
use semel_store::rehearsals::{StagedConnection, StagedFlow};
use serde_json::{Value, json};

/// The connections of the namespace that the flow and those it calls use, and a plain one for each that
/// is missing there.
pub(crate) fn stage_connections(
    flow: &Flow,
    (called, known): (&[StagedFlow], &BTreeMap<String, Connection>),
    notes: &mut Vec<String>,
) -> Vec<StagedConnection> {
    let mut staged = Vec::new();
    let called: Vec<Flow> = called.iter().filter_map(|one| load(&one.source)).collect();
    let mut used = BTreeMap::new();
    for flow in std::iter::once(flow).chain(&called) {
        for (name, usual) in used_connections(flow) {
            used.entry(name).or_insert(usual);
        }
    }
    for (name, usual) in used {
        let connection = match known.get(&name) {
            Some(connection) => serde_json::to_value(connection).unwrap_or_default(),
            None => {
                notes.push(format!(
                    "the connection `{name}` is not set: rehearsed as one that honours no keys"
                ));
                usual
            }
        };
        staged.push(StagedConnection {
            name,
            connection: connection.to_string(),
        });
    }
    staged
}

/// The connections that a flow uses, each with what a plain one of the kind looks like.
fn used_connections(flow: &Flow) -> BTreeMap<String, Value> {
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
