//! The handle's side door, under `/_/`. Nothing here counts as a call.

use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::{Request, Response};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::paced::Paced;
use super::respond::reply;
use super::route::query_value;
use super::shared::Shared;
use super::wire::{Held, Rule};

/// How many effects one page holds at most.
pub(super) const EFFECTS_PAGE_MAX: usize = 10_000;

pub(super) async fn answer(request: Request<Incoming>, shared: &Shared) -> Response<Paced> {
    let (head, body) = request.into_parts();
    let query = head.uri.query().unwrap_or_default();
    let body = body
        .collect()
        .await
        .map(|body| body.to_bytes())
        .unwrap_or_default();
    match head.uri.path() {
        "/_/totals" => reply(200, &json!(shared.world().totals())),
        "/_/count" => reply(200, &count(shared, query)),
        "/_/effects" => {
            let from = number(query, "from").unwrap_or_default();
            reply(200, &json!(shared.world().list(from, EFFECTS_PAGE_MAX)))
        }
        "/_/reset" => {
            shared.world().reset();
            reply(200, &Value::Null)
        }
        "/_/next" => match serde_json::from_slice::<Rule>(&body) {
            Ok(rule) => {
                shared.world().add_rule(rule);
                reply(200, &Value::Null)
            }
            Err(error) => reply(400, &json!({ "error": error.to_string() })),
        },
        "/_/held" => {
            let wanted = number(query, "count").unwrap_or_default();
            let within_ms = number(query, "within_ms").unwrap_or_default();
            reply(200, &json!(await_held(shared, wanted, within_ms).await))
        }
        "/_/let-go" => {
            let only = number(query, "id").map(|id| id as u64);
            reply(200, &json!(shared.world().let_go(only)))
        }
        _ => reply(404, &json!({ "error": "no such control" })),
    }
}

fn count(shared: &Shared, query: &str) -> Value {
    let world = shared.world();
    match (query_value(query, "key"), query_value(query, "path")) {
        (Some(key), _) => json!(world.count_of_key(&key)),
        (None, path) => json!(world.count_of_path(&path.unwrap_or_default())),
    }
}

/// Waits until so many requests are held, or the time is up, and lists them.
async fn await_held(shared: &Shared, wanted: usize, within_ms: usize) -> Vec<Held> {
    let mut holding = shared.holding.subscribe();
    let enough = async {
        while shared.world().list_held().len() < wanted {
            holding.changed().await.ok();
        }
    };
    timeout(Duration::from_millis(within_ms as u64), enough)
        .await
        .ok();
    shared.world().list_held()
}

fn number(query: &str, name: &str) -> Option<usize> {
    query_value(query, name)?.parse().ok()
}
