//! The API's document (OpenAPI 3.1), made from the routes: what is mounted is what is described.
//!
//! Each operation says beside the usual which right it needs (`x-right`), how it uses an idempotency
//! key (`x-key`) and which error codes it returns (`x-codes` of its responses).

mod components;
mod parameters;

use std::collections::{BTreeMap, BTreeSet};

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use semel_api::Code;
use serde_json::{Map, Value, json};

use crate::access::{Access, DeclaredRoute, DocumentedRoute};
use crate::openapi::components::Components;
use crate::operation::{Content, KeyUse, Operation};

/// What the document is about.
const ABOUT: &str = "Semel runs workflows whose triggers may fire more than once, and performs each \
    effect once. Requests are JSON and are read strictly; answers may gain members. An error is a problem \
    (RFC 9457) with a stable `code`, which has a page in docs/errors. `x-right` is the right that the token \
    needs; `none` needs no token and `any` any token. `x-key` says how the header `Idempotency-Key` is used: \
    `derived` from what is asked for, so that a repeat is the same command, or `required`.";

/// The document of these routes. A route without an operation is not in it.
pub(crate) fn document(routes: &[DocumentedRoute]) -> Value {
    let mut components = Components::default();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for DocumentedRoute { route, operation } in routes {
        if let Some(operation) = operation {
            let method = route.method.as_str().to_ascii_lowercase();
            let described = describe(route, operation, &mut components);
            let path = paths.entry(&route.path).or_default();
            path.insert(method, described);
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Semel",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "security": [{ "token": [] }],
        "paths": paths,
        "components": components.into_json(),
    })
}

/// The document as a response.
pub(crate) fn respond(text: Bytes) -> Response {
    let json = HeaderValue::from_static("application/json");
    (StatusCode::OK, [(CONTENT_TYPE, json)], text).into_response()
}

fn describe(route: &DeclaredRoute, operation: &Operation, components: &mut Components) -> Value {
    let mut described = Map::new();
    let mut add = |name: &str, value: Value| described.insert(name.to_owned(), value);
    add("operationId", json!(operation.id));
    add("summary", json!(operation.summary));
    add("tags", json!([tag(&route.path)]));
    match route.access {
        Access::Right(right) | Access::Monitor(right) => {
            add("x-right", json!(right.as_str()));
        }
        Access::AnyToken(reason) => {
            add("x-right", json!("any"));
            add("description", json!(format!("Needs any token: {reason}.")));
        }
        Access::Console => {
            add("x-right", json!("console"));
        }
        Access::Open(reason) => {
            add("x-right", json!("none"));
            add("description", json!(format!("Needs no token: {reason}.")));
            add("security", json!([]));
        }
    }
    if let Some(key) = operation.key {
        add("x-key", json!(key.as_str()));
    }
    let parameters = parameters::list(&route.path, operation, components);
    if !parameters.is_empty() {
        add("parameters", json!(parameters));
    }
    if !operation.bodies.is_empty() {
        add("requestBody", body(operation, components));
    }
    add("responses", responses(route, operation, components));
    Value::Object(described)
}

/// What an operation is listed under: the noun of its path.
fn tag(path: &str) -> &str {
    let path = path.strip_prefix("/v1").unwrap_or(path);
    path.split('/').nth(1).unwrap_or_default()
}

fn body(operation: &Operation, components: &mut Components) -> Value {
    let mut required = false;
    let mut content = Map::new();
    for taken in &operation.bodies {
        if let Content::Json(schema) = taken {
            required |= components.has_required(*schema);
        }
        add_content(&mut content, *taken, components);
    }
    json!({ "required": required, "content": content })
}

/// Adds what a body may be. Several types of one media type are alternatives.
fn add_content(content: &mut Map<String, Value>, added: Content, components: &mut Components) {
    let (media_type, schema) = match added {
        Content::Json(schema) => ("application/json", components.reference(schema)),
        Content::Page(schema) => ("application/json", components.page(schema)),
        Content::AnyJson => ("application/json", json!({})),
        Content::Other(media_type) => (media_type, json!({ "type": "string" })),
        Content::Nothing => return,
    };
    let known = content
        .get_mut(media_type)
        .map(|known| &mut known["schema"]);
    match known {
        None => {
            content.insert(media_type.to_owned(), json!({ "schema": schema }));
        }
        Some(known) => match known.get_mut("anyOf").and_then(Value::as_array_mut) {
            Some(several) => several.push(schema),
            None => *known = json!({ "anyOf": [known.take(), schema] }),
        },
    }
}

fn responses(route: &DeclaredRoute, operation: &Operation, components: &mut Components) -> Value {
    let mut responses: BTreeMap<String, Value> = BTreeMap::new();
    let mut succeeds: BTreeMap<u16, Map<String, Value>> = BTreeMap::new();
    for (status, content) in &operation.answers {
        add_content(succeeds.entry(*status).or_default(), *content, components);
    }
    let mut fails: BTreeMap<u16, BTreeSet<&'static str>> = BTreeMap::new();
    for code in list_problems(route, operation) {
        let codes = fails.entry(code.status()).or_default();
        codes.insert(code.as_str());
    }
    for (status, content) in succeeds {
        let mut response = Map::new();
        response.insert("description".into(), json!(reason(status)));
        if !content.is_empty() {
            response.insert("content".into(), Value::Object(content));
        }
        if operation.key == Some(KeyUse::Derived) {
            let replayed = json!({ "$ref": "#/components/headers/Idempotency-Replayed" });
            let headers = json!({ "Idempotency-Replayed": replayed });
            response.insert("headers".into(), headers);
        }
        let mut response = Value::Object(response);
        if let Some(codes) = fails.remove(&status) {
            let problem = components.problem(&codes);
            response["content"]["application/problem+json"] =
                problem["content"]["application/problem+json"].clone();
            response["x-codes"] = problem["x-codes"].clone();
        }
        responses.insert(status.to_string(), response);
    }
    for (status, codes) in fails {
        let problem = components.problem_reference(&codes);
        responses.insert(status.to_string(), problem);
    }
    json!(responses)
}

fn reason(status: u16) -> &'static str {
    let status = StatusCode::from_u16(status).ok();
    let reason = status.and_then(|status| status.canonical_reason());
    reason.unwrap_or_default()
}

/// The errors that an operation returns: its own, and those that come with what it takes and needs.
fn list_problems(route: &DeclaredRoute, operation: &Operation) -> Vec<Code> {
    let mut codes = operation.problems.clone();
    codes.push(Code::Internal);
    match route.access {
        Access::Right(_) | Access::Monitor(_) => codes.extend([
            Code::Unauthorized,
            Code::RightMissing,
            Code::TooManyRequests,
            Code::DatabaseUnavailable,
        ]),
        Access::AnyToken(_) | Access::Console => {
            codes.extend([
                Code::Unauthorized,
                Code::TooManyRequests,
                Code::DatabaseUnavailable,
            ]);
        }
        Access::Open(_) => {}
    }
    if route.path.contains('{') {
        codes.push(Code::RouteNotFound);
    }
    if operation.has_query() {
        codes.push(Code::QueryInvalid);
    }
    if !operation.bodies.is_empty() {
        codes.extend([
            Code::BodyTooLarge,
            Code::BodyIncomplete,
            Code::BodyNotJson,
            Code::BodyInvalid,
            Code::Overloaded,
        ]);
    }
    codes
}
