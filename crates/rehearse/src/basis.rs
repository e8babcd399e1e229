//! What a rehearsal rests on besides the text: connections, and the flows that are called.

use std::collections::{BTreeMap, BTreeSet};

use semel_flow::release::Action;
use semel_flow::{Flow, examples, load};
use semel_model::id::digest;
use semel_store::rehearsals::StagedFlow;
use semel_store::{Cell, ReadError, connections, flows};
use serde_json::json;

use crate::rehearse::Subject;

/// How many flows that call each other are rehearsed together.
const CALLED_MAX: usize = 50;

/// What is rehearsed, with the connections of its namespace and the flows that it calls.
pub(crate) async fn subject(
    cell: &Cell,
    namespace_id: i32,
    file: &str,
    source: &str,
) -> Result<Subject, ReadError> {
    let rows = connections::list(cell.home(), namespace_id).await?;
    Ok(Subject {
        file: file.to_owned(),
        source: source.to_owned(),
        called: called(cell, namespace_id, source).await?,
        connections: rows
            .into_iter()
            .map(|row| (row.name, row.connection))
            .collect(),
    })
}

/// The live releases of the flows that a flow calls, and that those call.
async fn called(
    cell: &Cell,
    namespace_id: i32,
    source: &str,
) -> Result<Vec<StagedFlow>, ReadError> {
    let mut found: Vec<StagedFlow> = Vec::new();
    let own = load(source);
    let mut wanted = own.as_ref().map(calls_of).unwrap_or_default();
    let own = own.map(|flow| flow.name.to_string());
    while let Some(name) = wanted.pop() {
        let known = found.iter().any(|flow| flow.name == name) || own.as_ref() == Some(&name);
        if known || found.len() >= CALLED_MAX {
            continue;
        }
        let views = flows::list(cell.home(), namespace_id, Some(&name)).await?;
        let live = views.first().and_then(|view| view.live);
        let releases = flows::list_releases(cell.home(), namespace_id, &name).await?;
        let release = releases.into_iter().find(|one| Some(one.number) == live);
        if let Some(release) = release {
            wanted.extend(
                load(&release.source)
                    .as_ref()
                    .map(calls_of)
                    .unwrap_or_default(),
            );
            found.push(StagedFlow {
                name,
                digest: release.digest,
                source: release.source,
            });
        }
    }
    Ok(found)
}

fn calls_of(flow: &Flow) -> Vec<String> {
    let mut called = Vec::new();
    for step in &flow.steps {
        if let Action::Call(call) = &step.action {
            called.push(call.flow.to_string());
        }
    }
    called
}

/// What a rehearsal rests on besides what the flow does: the connections that the flow and those it
/// calls use, the releases of the latter, and the examples, which are no part of a release's digest.
pub(crate) fn facts(flow: &Flow, subject: &Subject) -> String {
    let (called, connections) = (&subject.called, &subject.connections);
    let told: BTreeMap<String, serde_json::Value> = used(flow, subject)
        .into_iter()
        .map(|name| {
            let known = connections.get(&name).map(|connection| {
                let keys = serde_json::to_value(&connection.idempotency_keys);
                json!({ "kind": connection.kind(), "keys": keys.unwrap_or_default() })
            });
            (name, known.unwrap_or_default())
        })
        .collect();
    let releases: BTreeMap<&str, &str> = called
        .iter()
        .map(|one| (one.name.as_str(), one.digest.as_str()))
        .collect();
    // Another set of examples proves another thing.
    let examples = serde_json::to_vec(&examples(&subject.source)).unwrap_or_default();
    let examples = digest("rehearsed examples", &[&examples]);
    let examples: String = examples.iter().map(|byte| format!("{byte:02x}")).collect();
    json!({ "connections": told, "called": releases, "examples": examples }).to_string()
}

/// The connections that a flow and those it calls use.
pub(crate) fn used(flow: &Flow, subject: &Subject) -> BTreeSet<String> {
    let others = subject.called.iter().filter_map(|one| load(&one.source));
    let others: Vec<Flow> = others.collect();
    let all = std::iter::once(flow).chain(&others);
    let names = all.flat_map(Flow::connections);
    names.map(str::to_owned).collect()
}
