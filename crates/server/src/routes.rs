//! Where each request goes, and the right that it needs there.

use axum::Router;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderValue, Method, Uri};
use axum::middleware::map_response;
use axum::response::Response;
use semel_api::Code;
use semel_model::Right::{
    Admin, Approve, Connect, Once, Operate, Override, Payload, Promote, Read, Redo, Replay, Secret,
    Settle, Start, Work, Write,
};

use crate::access::{Access, DeclaredRoute, Routes};
use crate::app::App;
use crate::error::ApiError;
use crate::{
    approvals, auth, callbacks, child_runs, connections, duplicates, effects, entries, find, flows,
    health, hooks, keys, metrics, once, reconcile, refusals, rehearsals, replay_plans, replays,
    resources, runs, schedules, secrets, starts, subscriptions, tasks, tokens, waits,
};

/// Why a health check needs no token.
const HEALTH: Access = Access::Open("a load balancer has no token, and learns one word");

/// Every route of the public listener, with what it needs.
pub fn list_routes() -> Vec<DeclaredRoute> {
    public().into_declared()
}

/// Every route.
pub(crate) fn build(app: App) -> Router {
    serve(public(), app)
}

/// The routes of the admin listener, which only operators can reach.
pub(crate) fn build_admin(app: App) -> Router {
    let operators = Access::Open("only operators can reach the admin listener");
    let routes = Routes::default()
        .get("/healthz", HEALTH, health::alive)
        .get("/readyz", HEALTH, health::ready)
        .get("/metrics", operators, metrics::show);
    serve(routes, app)
}

fn serve(routes: Routes, app: App) -> Router {
    routes
        .into_router()
        .fallback(nothing_there)
        .method_not_allowed_fallback(wrong_method)
        .with_state(app)
}

fn public() -> Routes {
    let sender = Access::Open("the trigger verifies the sender by its own `auth`");
    let link = Access::Open("the address is the credential: it is signed and leads to one wait");
    let asks = Access::Open("a source asks whether it may deliver; nothing of the request is used");
    let hint = Access::Open("it says how to use the address, and looks nothing up");
    Routes::default()
        .post("/hooks/{namespace}/{path}", sender, hooks::receive)
        .options("/hooks/{namespace}/{path}", asks, hooks::preflight)
        .post("/callbacks/{token}", link, callbacks::receive)
        .get("/callbacks/{token}", hint, callbacks::explain)
        .get("/approvals/{token}", link, approvals::page)
        .post("/approvals/{token}", link, approvals::submit)
        .get("/healthz", HEALTH, health::alive)
        .get("/readyz", HEALTH, health::ready)
        .get("/metrics", Access::Monitor(Read), metrics::show)
        .nest("/v1", api())
}

fn api() -> Routes {
    let own = Access::AnyToken("every holder may see what their own token is");
    Routes::default()
        .get("/whoami", own, auth::whoami)
        .get("/tokens", Admin, tokens::list)
        .post("/tokens", Admin, tokens::create)
        .post("/tokens/{token}/revoke", Admin, tokens::revoke)
        .get("/flows", Read, flows::list)
        .get("/flows/{flow}", Read, flows::show)
        .put("/flows/{flow}/draft", Write, flows::push)
        .post("/flows/{flow}/publish", Write, flows::publish)
        .post("/flows/{flow}/promote", Promote, flows::promote)
        .post("/flows/{flow}/runs", Start, starts::start)
        .get("/runs", Read, runs::list)
        .get("/runs/{run}", Read, runs::show)
        .get("/runs/{run}/wait", Read, runs::watch)
        .post("/runs/{run}/cancel", Operate, runs::cancel)
        .post("/runs/{run}/resume", Operate, runs::resume)
        .post("/runs/{run}/replay", Replay, replays::replay)
        .post("/runs/{run}/replay/preview", Replay, replays::preview)
        .get("/runs/{run}/child-runs", Read, child_runs::list)
        .get("/effects", Read, effects::list)
        .get("/effects/{effect}", Read, effects::show)
        .post("/effects/{effect}/settle", Settle, effects::settle)
        .post("/effects/{effect}/amend", Settle, effects::amend)
        .post("/effects/{effect}/undo", Redo, effects::undo)
        .post("/effects/{effect}/redo", Redo, effects::redo)
        .get("/doubts", Read, effects::list_doubts)
        .post("/doubts/settle", Settle, effects::settle_group)
        .post("/doubts/settle/preview", Settle, effects::preview_group)
        .merge(stopping())
        .get("/find", Read, find::find)
        .get("/kv", Read, entries::list)
        .get("/kv/entry", Payload, entries::show)
        .get("/flows/{flow}/keys", Read, keys::list)
        .get("/keys/{flow}", Read, keys::show)
        .get("/keys/{flow}/audit", Payload, keys::audit)
        .post("/keys/{flow}/drop", Operate, keys::drop_key)
        .get("/resources", Read, resources::list)
        .get("/resources/{digest}", Read, resources::show)
        .put("/resources/{digest}", Start, resources::upload)
        .get("/resources/{digest}/content", Payload, resources::download)
        .get("/waits", Read, waits::list)
        .post("/waits/{wait}/complete", Operate, waits::complete)
        .get("/connections", Read, connections::list)
        .get("/connections/{name}", Read, connections::show)
        .put("/connections/{name}", Connect, connections::put)
        .delete("/connections/{name}", Connect, connections::delete)
        .post("/connections/{name}/test", Connect, connections::test)
        .post("/connections/{name}/prepare", Connect, connections::prepare)
        .get("/secrets", Read, secrets::list)
        .post("/secrets/rotate", Secret, secrets::rotate)
        .put("/secrets/{name}", Secret, secrets::set)
        .delete("/secrets/{name}", Secret, secrets::delete)
        .merge(scheduling())
        .merge(replaying())
        .merge(subscribing())
        .merge(outside())
        .with(|router| router.layer(map_response(keep_out_of_caches)))
}

/// The routes for deliveries that started no run.
fn stopping() -> Routes {
    let as_new = "/duplicates/{duplicate}/accept-as-new";
    let as_repeat = "/duplicates/{duplicate}/accept-as-repeat";
    Routes::default()
        .get("/duplicates", Read, duplicates::list)
        // What was held may be a replay: a run of its own passes over that safeguard.
        .post(as_new, Override, duplicates::accept_as_new)
        .post(as_repeat, Operate, duplicates::accept_as_repeat)
        .post(
            "/duplicates/{duplicate}/dismiss",
            Operate,
            duplicates::dismiss,
        )
        .get("/refusals", Read, refusals::list)
}

fn scheduling() -> Routes {
    Routes::default()
        .get("/reconcile/{flow}", Read, reconcile::list)
        .post("/reconcile/{flow}", Operate, reconcile::ask)
        .get("/reconcile/{flow}/{nominal}", Read, reconcile::show)
        .get("/rehearsals/{rehearsal}", Read, rehearsals::show)
        .put("/rehearsals/{rehearsal}", Write, rehearsals::ask)
        .get("/schedules", Read, schedules::list)
        .get("/schedules/{flow}", Read, schedules::show)
        .get("/schedules/{flow}/ticks", Read, schedules::list_ticks)
        .get("/schedules/{flow}/instants", Read, schedules::list_instants)
        .post("/schedules/{flow}/pause", Operate, schedules::pause)
        .post("/schedules/{flow}/resume", Operate, schedules::resume)
        .post("/schedules/{flow}/fire", Operate, schedules::fire)
}

fn replaying() -> Routes {
    Routes::default()
        .get("/replay-plans", Read, replay_plans::list)
        .post("/replay-plans", Replay, replay_plans::plan)
        .get("/replay-plans/{plan}", Read, replay_plans::show)
        .get("/replay-plans/{plan}/runs", Read, replay_plans::list_runs)
        .post("/replay-plans/{plan}/apply", Replay, replay_plans::apply)
        .post("/replay-plans/{plan}/pause", Replay, replay_plans::pause)
        .post("/replay-plans/{plan}/stop", Replay, replay_plans::stop)
}

fn subscribing() -> Routes {
    let deliveries = "/subscriptions/{name}/deliveries";
    let retry = "/subscriptions/{name}/deliveries/{event}/retry";
    Routes::default()
        .get("/subscriptions", Read, subscriptions::list)
        .get("/subscriptions/{name}", Read, subscriptions::show)
        .put("/subscriptions/{name}", Connect, subscriptions::put)
        .delete("/subscriptions/{name}", Connect, subscriptions::delete)
        .get(deliveries, Read, subscriptions::list_deliveries)
        .post(retry, Operate, subscriptions::retry)
}

/// The routes for programs and people outside.
fn outside() -> Routes {
    Routes::default()
        .get("/tasks", Read, tasks::list)
        .post("/tasks/claim", Work, tasks::claim)
        .get("/tasks/{task}", Read, tasks::show)
        .post("/tasks/{task}/heartbeat", Work, tasks::renew)
        .post("/tasks/{task}/complete", Work, tasks::complete)
        .post("/tasks/{task}/fail", Work, tasks::fail)
        .get("/once", Read, once::list)
        .get("/once/{effect}", Read, once::show)
        .post("/once/begin", Once, once::begin)
        .post("/once/heartbeat", Once, once::heartbeat)
        .post("/once/done", Once, once::finish)
        .post("/once/fail", Once, once::fail)
        .post("/once/get", Read, once::get)
        .post("/once/settle", Settle, once::settle)
        .post("/once/redo", Redo, once::redo)
        .get("/approvals", Read, approvals::list)
        .get("/approvals/{approval}", Read, approvals::show)
        .post("/approvals/{approval}/decide", Approve, approvals::decide)
}

/// Responses of the API are for the token's holder only.
async fn keep_out_of_caches(mut response: Response) -> Response {
    let no_store = HeaderValue::from_static("no-store");
    response.headers_mut().insert(CACHE_CONTROL, no_store);
    response
}

async fn nothing_there() -> ApiError {
    ApiError::plain(Code::RouteNotFound)
}

async fn wrong_method(method: Method) -> ApiError {
    let detail = format!("the address does not take {method}");
    ApiError::new(Code::MethodNotAllowed, detail)
}

/// A path as logs may show it: the address of a callback is a credential.
pub(crate) fn loggable(uri: &Uri) -> &str {
    match uri.path() {
        path if path.starts_with("/callbacks/") => "/callbacks/…",
        path if path.starts_with("/approvals/") => "/approvals/…",
        path => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_callback_stays_out_of_logs() {
        assert_eq!(
            loggable(&Uri::from_static("/callbacks/hush")),
            "/callbacks/…"
        );
        assert_eq!(
            loggable(&Uri::from_static("/approvals/hush")),
            "/approvals/…"
        );
        assert_eq!(loggable(&Uri::from_static("/v1/runs?key=k")), "/v1/runs");
    }
}
