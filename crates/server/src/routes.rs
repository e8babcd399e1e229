//! Where each request goes.

use axum::Router;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderValue, Method, Uri};
use axum::middleware::map_response;
use axum::response::Response;
use axum::routing::{get, post, put};
use semel_api::Code;

use crate::app::App;
use crate::error::ApiError;
use crate::{
    approvals, auth, callbacks, child_runs, connections, duplicates, effects, flows, health, hooks,
    keys, metrics, resources, runs, schedules, secrets, starts, subscriptions, tasks, waits,
};

/// Every route.
pub(crate) fn build(app: App) -> Router {
    Router::new()
        .route("/hooks/{namespace}/{path}", post(hooks::receive))
        .route(
            "/callbacks/{token}",
            post(callbacks::receive).get(callbacks::explain),
        )
        .route(
            "/approvals/{token}",
            get(approvals::page).post(approvals::submit),
        )
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(metrics::show))
        .nest("/v1", api())
        .fallback(nothing_there)
        .method_not_allowed_fallback(wrong_method)
        .with_state(app)
}

/// The routes of the admin listener, which only operators can reach.
pub(crate) fn build_admin(app: App) -> Router {
    Router::new()
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(metrics::show_freely))
        .fallback(nothing_there)
        .method_not_allowed_fallback(wrong_method)
        .with_state(app)
}

fn api() -> Router<App> {
    Router::new()
        .route("/whoami", get(auth::whoami))
        .route("/flows", get(flows::list))
        .route("/flows/{flow}", get(flows::show))
        .route("/flows/{flow}/draft", put(flows::push))
        .route("/flows/{flow}/publish", post(flows::publish))
        .route("/flows/{flow}/promote", post(flows::promote))
        .route("/flows/{flow}/runs", post(starts::start))
        .route("/runs", get(runs::list))
        .route("/runs/{run}", get(runs::show))
        .route("/runs/{run}/wait", get(runs::watch))
        .route("/runs/{run}/cancel", post(runs::cancel))
        .route("/runs/{run}/resume", post(runs::resume))
        .route("/runs/{run}/child-runs", get(child_runs::list))
        .route("/effects", get(effects::list))
        .route("/effects/{effect}", get(effects::show))
        .route("/effects/{effect}/settle", post(effects::settle))
        .route("/effects/{effect}/amend", post(effects::amend))
        .route("/doubts", get(effects::list_doubts))
        .route("/duplicates", get(duplicates::list))
        .route("/keys/{flow}", get(keys::show))
        .route("/keys/{flow}/audit", get(keys::audit))
        .route("/keys/{flow}/drop", post(keys::drop_key))
        .route("/resources", get(resources::list))
        .route("/resources/{digest}", get(resources::show))
        .route("/resources/{digest}/content", get(resources::download))
        .route("/waits", get(waits::list))
        .route("/waits/{wait}/complete", post(waits::complete))
        .route("/connections", get(connections::list))
        .route(
            "/connections/{name}",
            get(connections::show)
                .put(connections::put)
                .delete(connections::delete),
        )
        .route("/connections/{name}/test", post(connections::test))
        .route("/connections/{name}/prepare", post(connections::prepare))
        .route("/secrets", get(secrets::list))
        .route("/secrets/rotate", post(secrets::rotate))
        .route("/secrets/{name}", put(secrets::set).delete(secrets::delete))
        .merge(scheduling())
        .merge(subscribing())
        .merge(outside())
        .layer(map_response(keep_out_of_caches))
}

fn scheduling() -> Router<App> {
    Router::new()
        .route("/schedules", get(schedules::list))
        .route("/schedules/{flow}", get(schedules::show))
        .route("/schedules/{flow}/ticks", get(schedules::list_ticks))
        .route("/schedules/{flow}/instants", get(schedules::list_instants))
        .route("/schedules/{flow}/pause", post(schedules::pause))
        .route("/schedules/{flow}/resume", post(schedules::resume))
        .route("/schedules/{flow}/fire", post(schedules::fire))
}

fn subscribing() -> Router<App> {
    Router::new()
        .route("/subscriptions", get(subscriptions::list))
        .route(
            "/subscriptions/{name}",
            get(subscriptions::show)
                .put(subscriptions::put)
                .delete(subscriptions::delete),
        )
        .route(
            "/subscriptions/{name}/deliveries",
            get(subscriptions::list_deliveries),
        )
        .route(
            "/subscriptions/{name}/deliveries/{event}/retry",
            post(subscriptions::retry),
        )
}

/// The routes for programs and people outside.
fn outside() -> Router<App> {
    Router::new()
        .route("/tasks", get(tasks::list))
        .route("/tasks/claim", post(tasks::claim))
        .route("/tasks/{task}", get(tasks::show))
        .route("/tasks/{task}/heartbeat", post(tasks::renew))
        .route("/tasks/{task}/complete", post(tasks::complete))
        .route("/tasks/{task}/fail", post(tasks::fail))
        .route("/approvals", get(approvals::list))
        .route("/approvals/{approval}", get(approvals::show))
        .route("/approvals/{approval}/decide", post(approvals::decide))
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
