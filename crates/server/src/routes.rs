//! Where each request goes, and the right that it needs there.

mod access;
mod effects;
mod flows;
mod open;
mod outside;
mod replaying;
mod runs;
mod scheduling;
mod stored;

use axum::extract::Request;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderValue, Method, Uri};
use axum::middleware::{Next, from_fn, from_fn_with_state, map_response};
use axum::response::Response;
use axum::{Extension, Router};
use semel_api::Code;
use serde_json::Value;

use crate::access::{Access, DeclaredRoute, Routes};
use crate::app::App;
use crate::console::{self, LocalApi};
use crate::error::ApiError;
use crate::{health, metrics, openapi};

/// Why a delivery or a start is not accepted.
const INTAKE: &[Code] = &[
    Code::FlowNotFound,
    Code::TriggerNotDeclared,
    Code::BodyNotJson,
    Code::BodyTooLarge,
    Code::KeyMissing,
    Code::KeyFailed,
    Code::KeyInvalid,
    Code::KeyDeclared,
    Code::InputInvalid,
    Code::PayloadMismatch,
];

/// Why a decision about an approval is not accepted.
const DECISION: &[Code] = &[
    Code::ApprovalNotFound,
    Code::ApprovalDiffers,
    Code::ApprovalDecided,
    Code::ApprovalDenied,
    Code::ApprovalNeedsLogin,
];

/// Every route of the public listener, with what it needs.
pub fn list_routes() -> Vec<DeclaredRoute> {
    public().merge(console::routes()).into_declared()
}

/// The API's document (OpenAPI 3.1).
pub fn openapi_document() -> Value {
    openapi::document(&public().into_documented())
}

/// Every route.
pub(crate) fn build(app: App) -> Router {
    let api = finish(Routes::default().nest("/v1", api()));
    let local = LocalApi::new(api.with_state(app.clone()));
    let dress = from_fn_with_state(app.clone(), console::dress);
    let pages = console::routes().with(|router| router.layer(Extension(local)).layer(dress));
    let router = finish(public().merge(pages));
    let router = match app.options.inspector.clone() {
        Some(inspector) => {
            let look = move |request: Request, next: Next| inspector.clone().look(request, next);
            router.layer(from_fn(look))
        }
        None => router,
    };
    router.with_state(app)
}

/// The routes of the admin listener, which only operators can reach.
pub(crate) fn build_admin(app: App) -> Router {
    let operators = Access::Open("only operators can reach the admin listener");
    let routes = Routes::default()
        .get("/healthz", open::HEALTH, health::alive)
        .get("/readyz", open::HEALTH, health::ready)
        .get("/metrics", operators, metrics::show);
    finish(routes).with_state(app)
}

fn finish(routes: Routes) -> Router<App> {
    routes
        .into_router()
        .fallback(nothing_there)
        .method_not_allowed_fallback(wrong_method)
}

fn public() -> Routes {
    open::routes().nest("/v1", api())
}

fn api() -> Routes {
    access::routes()
        .merge(flows::routes())
        .merge(runs::routes())
        .merge(effects::routes())
        .merge(stored::routes())
        .merge(scheduling::routes())
        .merge(replaying::routes())
        .merge(outside::routes())
        .merge(open::document())
        .with(|router| router.layer(map_response(keep_out_of_caches)))
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
