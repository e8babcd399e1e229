//! What a rehearsal rests on besides the text: connections, and the flows that are called.

use std::collections::{BTreeMap, BTreeSet};

use semel_flow::release::Action;
use semel_flow::{Flow, examples, load};
use semel_model::connection::Connection;
use semel_model::id::digest;
use semel_store::flows::LiveText;
use semel_store::rehearsals::StagedFlow;
use semel_store::{Cell, ReadError, connections, flows};
use serde_json::json;

use crate::rehearse::Subject;

/// How many flows that call each other are rehearsed together.
const CALLED_MAX: usize = 50;

/// What the flows of a namespace rest on: its connections, and the flows that others may call.
pub(crate) struct Surroundings {
    connections: BTreeMap<String, Connection>,
    live: BTreeMap<String, StagedFlow>,
}

impl Surroundings {
    /// Reads what some texts rest on: one statement, and one more if any of them calls a flow.
    pub(crate) async fn read(
        cell: &Cell,
        namespace_id: i32,
        sources: impl IntoIterator<Item = &str>,
    ) -> Result<Self, ReadError> {
        let rows = connections::list(cell.home(), namespace_id).await?;
        let connections = rows.into_iter().map(|row| (row.name, row.connection));
        let mut texts = sources.into_iter().filter_map(load);
        let live = match texts.any(|flow| !calls_of(&flow).is_empty()) {
            true => flows::list_live_of(cell.home(), namespace_id).await?,
            false => Vec::new(),
        };
        let staged = |release: LiveText| {
            let LiveText {
                flow,
                digest,
                source,
                ..
            } = release;
            (
                flow.clone(),
                StagedFlow {
                    name: flow,
                    digest,
                    source,
                },
            )
        };
        Ok(Self {
            connections: connections.collect(),
            live: live.into_iter().map(staged).collect(),
        })
    }

    /// One of these texts, as it is rehearsed.
    pub(crate) fn subject(&self, file: &str, source: &str) -> Subject {
        Subject {
            file: file.to_owned(),
            source: source.to_owned(),
            called: self.called(source),
            connections: self.connections.clone(),
        }
    }

    /// The live releases of the flows that a flow calls, and that those call.
    fn called(&self, source: &str) -> Vec<StagedFlow> {
        let mut found: Vec<StagedFlow> = Vec::new();
        let own = load(source);
        let mut wanted = own.as_ref().map(calls_of).unwrap_or_default();
        let own = own.map(|flow| flow.name.to_string());
        while let Some(name) = wanted.pop() {
            let known = found.iter().any(|flow| flow.name == name) || own.as_ref() == Some(&name);
            if known || found.len() >= CALLED_MAX {
                continue;
            }
            if let Some(release) = self.live.get(&name) {
                let calls = load(&release.source).as_ref().map(calls_of);
                wanted.extend(calls.unwrap_or_default());
                found.push(release.clone());
            }
        }
        found
    }
}

/// What is rehearsed, with the connections of its namespace and the flows that it calls.
pub(crate) async fn subject(
    cell: &Cell,
    namespace_id: i32,
    file: &str,
    source: &str,
) -> Result<Subject, ReadError> {
    let surroundings = Surroundings::read(cell, namespace_id, [source]).await?;
    Ok(surroundings.subject(file, source))
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
