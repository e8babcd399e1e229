//! The API's document: every route is in it, and `docs/openapi.json` is what the server serves.

mod markdown;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use semel_server::{Access, list_routes, openapi_document};
use serde_json::Value;

use crate::world::World;

/// Operations that the client has no method for, or not one of their own.
const WITHOUT_METHOD: &[&str] = &[
    "apply_replay_plan",
    "ask_to_deliver",
    "call_back",
    "deliver",
    "draw_flow",
    "explain_callback",
    "get_openapi",
    "is_alive",
    "pause_replay_plan",
    "read_metrics",
    "redo_effect",
    "show_approval_page",
    "stop_replay_plan",
    "submit_decision",
    "undo_effect",
];

fn docs(name: &str) -> PathBuf {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    docs.join(name)
}

/// Compares a page with what the code makes; with `SEMEL_BLESS=1`, writes it.
fn compare(name: &str, now: &str) -> Result<()> {
    if std::env::var_os("SEMEL_BLESS").is_some() {
        std::fs::write(docs(name), now)?;
    }
    let kept = std::fs::read_to_string(docs(name)).with_context(|| format!("docs/{name}"))?;
    assert!(
        kept == now,
        "docs/{name} is not what the code makes: run this test with SEMEL_BLESS=1"
    );
    Ok(())
}

/// Every operation, with its method and its path.
pub(crate) fn operations(document: &Value) -> Vec<(String, String, &Value)> {
    let paths = document["paths"].as_object().into_iter().flatten();
    paths
        .flat_map(|(path, item)| {
            let methods = item.as_object().into_iter().flatten();
            methods.map(move |(method, operation)| {
                (method.to_ascii_uppercase(), path.clone(), operation)
            })
        })
        .collect()
}

#[test]
fn the_committed_document_is_what_the_code_makes() -> Result<()> {
    let mut now = serde_json::to_string_pretty(&openapi_document())?;
    now.push('\n');
    compare("openapi.json", &now)
}

#[test]
fn the_page_about_the_api_is_what_the_document_says() -> Result<()> {
    compare("api.md", &markdown::render(&openapi_document()))
}

#[test]
fn every_route_is_documented_and_every_operation_is_mounted() {
    let document = openapi_document();
    let documented: BTreeSet<String> = operations(&document)
        .into_iter()
        .map(|(method, path, operation)| {
            let right = operation["x-right"].as_str().unwrap_or_default();
            format!("{method} {path} {right}")
        })
        .collect();
    let mounted: BTreeSet<String> = list_routes()
        .into_iter()
        // Pages for people are no part of the API.
        .filter(|route| !route.path.starts_with("/console"))
        .map(|route| {
            let right = match route.access {
                Access::Right(right) | Access::Monitor(right) => right.as_str(),
                Access::AnyToken(_) => "any",
                Access::Console => "console",
                Access::Open(_) => "none",
            };
            format!("{} {} {right}", route.method, route.path)
        })
        .collect();

    assert_eq!(documented, mounted);
}

#[test]
fn every_operation_says_what_it_is() {
    let document = openapi_document();
    let mut names = BTreeSet::new();
    for (method, path, operation) in operations(&document) {
        let place = format!("{method} {path}");
        let id = operation["operationId"].as_str().unwrap_or_default();
        assert!(names.insert(id.to_owned()), "{place}: {id} stands twice");
        let summary = operation["summary"].as_str().unwrap_or_default();
        assert!(summary.ends_with('.'), "{place}: {summary}");
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let about = parameter["description"].as_str().unwrap_or_default();
            assert!(!about.is_empty(), "{place}: {parameter}");
        }
        let responses = operation["responses"].as_object();
        let mut statuses = responses.into_iter().flatten().map(|(status, _)| status);
        assert!(statuses.any(|status| status.starts_with('2')), "{place}");
        let changes = method != "GET" && operation["x-right"] != "read";
        let has_body = !operation["requestBody"].is_null();
        let has_key = !operation["x-key"].is_null();
        assert!(has_body || has_key || !changes || keyless(id), "{place}");
    }
}

/// Operations that change nothing, or the same when they are repeated, and take no body.
fn keyless(id: &str) -> bool {
    ["ask_to_deliver", "test_connection", "prepare_connection"].contains(&id)
}

#[test]
fn every_reference_of_the_document_leads_somewhere() {
    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str));
                members.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let document = openapi_document();
    let mut found = Vec::new();

    references(&document, &mut found);

    assert!(found.len() > 500, "{}", found.len());
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap_or_default();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

#[test]
fn operations_are_called_as_the_methods_of_the_client() -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../api/src/client");
    let mut sources = std::fs::read_to_string(folder.with_extension("rs"))?;
    for entry in std::fs::read_dir(folder)? {
        sources.push_str(&std::fs::read_to_string(entry?.path())?);
    }
    let document = openapi_document();
    let mut without: Vec<&str> = operations(&document)
        .into_iter()
        .filter_map(|(_, _, operation)| operation["operationId"].as_str())
        .filter(|id| !sources.contains(&format!("pub async fn {id}(")))
        .collect();
    without.sort_unstable();

    assert_eq!(without, WITHOUT_METHOD);
    Ok(())
}

#[tokio::test]
async fn the_document_is_served_without_a_token() -> Result<()> {
    let world = World::start().await?;

    let answer = world.bare.get("/v1/openapi.json").await?;

    assert_eq!(answer.status, 200);
    assert_eq!(answer.json::<Value>()?, openapi_document());
    Ok(())
}
