//! One request of the product under test, from its arrival to its answer.
//!
//! The order is that of a real server: the head is read, the body is read, the effect happens, the
//! answer leaves. Every behaviour is a hold or an end between two of these.

use std::collections::BTreeMap;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::paced::Paced;
use super::route::{Mode, Route, Shop, pairs, query_value};
use super::shared::{Closed, Shared};
use super::wire::Behaviour;
use super::world::{Call, Keyed};

/// The header by which a sender names the same thing.
const KEY: &str = "idempotency-key";

/// How many seconds a refused sender is asked to wait.
const RETRY_AFTER_S: &str = "1";

type Reply = Response<Paced>;

pub(super) async fn answer(
    request: Request<Incoming>,
    shared: &'static Shared,
) -> Result<Reply, Closed> {
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    let query = head.uri.query().unwrap_or_default().to_owned();
    let key = head
        .headers
        .get(KEY)
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned);
    let route = Route::of(&path);
    let behaviour = arrive(shared, &path, key.as_deref());

    if behaviour == Some(Behaviour::HoldBeforeReadingBody) {
        hold(shared, &path, key.as_deref()).await;
    }
    let body = body.collect().await.map_err(|_| Closed)?.to_bytes();
    let call = Call {
        method: head.method.to_string(),
        path,
        key,
        body,
        signed: signed(&head.headers),
    };

    if route.hold || behaviour == Some(Behaviour::HoldBeforeEffect) {
        hold(shared, &call.path, call.key.as_deref()).await;
    }
    if !route.busy.is_zero() {
        tokio::time::sleep(route.busy).await;
    }
    if let Some(refusal) = refuse(shared, &call, route, behaviour, &query)? {
        return Ok(refusal);
    }
    if !route.late.is_zero() {
        let (method, mode, late) = (head.method, route.mode, route.late);
        tokio::spawn(async move {
            tokio::time::sleep(late).await;
            act(shared, &method, mode, &call, &query);
        });
        return Err(Closed);
    }
    let reply = act(shared, &head.method, route.mode, &call, &query);
    let mut reply = replace_body(reply, &query);
    if route.id_chars > 0 {
        let id = long_id(&call.path, route.id_chars);
        reply = self::reply(reply.status().as_u16(), &json!({ "id": id }));
    }
    if !route.drip.is_zero() {
        reply = reply.map(|body| body.slowly(route.drip));
    }

    if !route.slow.is_zero() {
        tokio::time::sleep(route.slow).await;
    }
    if route.hang || behaviour == Some(Behaviour::HoldBeforeAnswer) {
        hold(shared, &call.path, call.key.as_deref()).await;
    }
    conclude(reply, route, behaviour)
}

/// The headers that a signed delivery has beside its body; nothing if there is no signature.
fn signed(headers: &HeaderMap) -> BTreeMap<String, String> {
    if !headers.contains_key("webhook-signature") {
        return BTreeMap::new();
    }
    let kept = headers
        .iter()
        .filter(|(name, _)| *name == CONTENT_TYPE || name.as_str().starts_with("webhook-"));
    kept.filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())))
        .collect()
}

fn arrive(shared: &Shared, path: &str, key: Option<&str>) -> Option<Behaviour> {
    let mut world = shared.world();
    world.note_call(path, key);
    world.take_behaviour(path)
}

async fn hold(shared: &Shared, path: &str, key: Option<&str>) {
    let wait = shared.world().hold(path, key);
    shared.holding.send_replace(());
    wait.await.ok();
}

/// Ends a request before it has acted.
fn refuse(
    shared: &Shared,
    call: &Call,
    route: Route,
    behaviour: Option<Behaviour>,
    query: &str,
) -> Result<Option<Reply>, Closed> {
    match behaviour {
        Some(Behaviour::CloseBeforeEffect) => return Err(Closed),
        Some(Behaviour::RefuseWith(status)) => return Ok(Some(bare(status))),
        _ => {}
    }
    if shared
        .world()
        .refuse_first(&call.path, call.key.as_deref(), route.fail_first)
    {
        let after = query_value(query, "after").unwrap_or_else(|| RETRY_AFTER_S.to_owned());
        let mut refusal = bare(429);
        if let Ok(after) = after.parse() {
            refusal.headers_mut().insert(RETRY_AFTER, after);
        }
        return Ok(Some(refusal));
    }
    let refused = route
        .status
        .filter(|_| query_value(query, "refuse").is_some());
    Ok(refused.map(bare))
}

fn act(shared: &Shared, method: &Method, mode: Mode, call: &Call, query: &str) -> Reply {
    let mut world = shared.world();
    let reading = method == Method::GET || method == Method::HEAD;
    match mode {
        Mode::Items => {
            let found = pairs(query)
                .next()
                .map(|(field, value)| world.find(&field, &value));
            let items = found.unwrap_or_default();
            reply(200, &json!({ "count": items.len(), "items": items }))
        }
        Mode::List(count) => {
            let text = "x".repeat(64);
            let item = |id| json!({ "id": id, "text": text });
            let items: Vec<_> = (0..count).map(item).collect();
            reply(200, &json!(items))
        }
        Mode::Shop(shop) => reply(200, &orders(shop, query)),
        Mode::Endless(circle) => reply(200, &endless(circle, query)),
        Mode::Put if reading => match world.state(&call.path) {
            Some(state) => raw(200, state),
            None => bare(404),
        },
        _ if reading => reply(200, &json!({ "path": call.path })),
        Mode::Plain => done(201, world.act(call)),
        Mode::Keyed => keyed(world.act_keyed(call)),
        Mode::Strict => match world.refuse_for_ever(call) {
            true => reply(402, &json!({ "error": "the amount is 0" })),
            false => keyed(world.act_keyed(call)),
        },
        Mode::Put if method == Method::DELETE => match world.delete(call) {
            Some(effect) => done(200, effect),
            None => bare(404),
        },
        Mode::Put => match world.put(call) {
            Some(effect) => done(200, effect),
            None => reply(200, &json!({ "unchanged": true })),
        },
    }
}

fn keyed(found: Keyed) -> Reply {
    match found {
        Keyed::New(effect) => done(201, effect),
        Keyed::Repeat(effect) => replayed(done(201, effect)),
        Keyed::Mismatch => reply(
            422,
            &json!({ "error": "the key belongs to another request" }),
        ),
    }
}

/// A page of a shop's orders. Order N was made N seconds before twenty minutes ago, an old one two days
/// before that. What the query says about time is ignored.
fn orders(shop: Shop, query: &str) -> Value {
    let number = |name: &str| query_value(query, name)?.parse::<u32>().ok();
    let (page, size) = (number("page").unwrap_or(0), number("size").unwrap_or(100));
    let all = shop.recent + shop.old;
    let order = |number: u32| {
        let age = match number < shop.recent {
            true => 1_200 + number,
            false => 1_200 + 2 * 86_400 + number,
        };
        json!({ "id": format!("o-{number}"), "total": number, "created_at": shop.now - age })
    };
    let first = page.saturating_mul(size).min(all);
    let last = first.saturating_add(size).min(all);
    let orders: Vec<Value> = (first..last).map(order).collect();
    let next = (last < all).then(|| (page + 1).to_string());
    json!({ "orders": orders, "next": next })
}

/// A page that names another one as the next, always.
fn endless(circle: u32, query: &str) -> Value {
    let page = query_value(query, "page").and_then(|page| page.parse::<u32>().ok());
    let next = page.unwrap_or(0).saturating_add(1);
    let next = if circle == 0 { next } else { next % circle };
    json!({ "orders": [], "next": next.to_string() })
}

/// What a hostile destination answers instead: `?nested=N` is so many lists inside each other,
/// `?id_chars=N` an id of so many characters that do not compress.
fn replace_body(reply: Reply, query: &str) -> Reply {
    let number = |name: &str| query_value(query, name)?.parse::<usize>().ok();
    let status = reply.status().as_u16();
    if let Some(levels) = number("nested") {
        let text = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        return raw(status, Bytes::from(text));
    }
    match number("id_chars") {
        Some(chars) => self::reply(status, &json!({ "id": noise(chars) })),
        None => reply,
    }
}

/// Characters that do not compress, always the same.
fn noise(chars: usize) -> String {
    let digests = (0_u32..).map(|number| hex::encode(Sha256::digest(number.to_be_bytes())));
    let mut text = String::new();
    for digest in digests {
        text.push_str(&digest);
        if text.len() >= chars {
            break;
        }
    }
    text.truncate(chars);
    text
}

/// Answers, or breaks off, a request that has acted.
fn conclude(mut reply: Reply, route: Route, behaviour: Option<Behaviour>) -> Result<Reply, Closed> {
    let status = match behaviour {
        Some(Behaviour::CloseWithoutAnswer) => return Err(Closed),
        Some(Behaviour::AnswerStatus(status)) => Some(status),
        _ => route.status,
    };
    if let Some(status) = status {
        *reply.status_mut() = code(status);
    }
    Ok(reply)
}

fn done(status: u16, effect: usize) -> Reply {
    reply(
        status,
        &json!({ "id": format!("ext_{effect}"), "effect": effect }),
    )
}

fn replayed(mut reply: Reply) -> Reply {
    let yes = hyper::header::HeaderValue::from_static("true");
    reply.headers_mut().insert("idempotency-replayed", yes);
    reply
}

pub(super) fn reply(status: u16, value: &Value) -> Reply {
    raw(status, Bytes::from(value.to_string()))
}

fn raw(status: u16, body: Bytes) -> Reply {
    let mut reply = Response::new(Paced::whole(body));
    *reply.status_mut() = code(status);
    let json = hyper::header::HeaderValue::from_static("application/json");
    reply.headers_mut().insert(CONTENT_TYPE, json);
    reply
}

/// Text of so many characters that looks random, and is the same for a path.
fn long_id(path: &str, chars: usize) -> String {
    let mut text = String::with_capacity(chars + 64);
    let mut last = path.to_owned();
    while text.len() < chars {
        last = hex::encode(Sha256::digest(last.as_bytes()));
        text.push_str(&last);
    }
    text.truncate(chars);
    text
}

fn bare(status: u16) -> Reply {
    reply(status, &json!({ "status": status }))
}

fn code(status: u16) -> StatusCode {
    StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}
