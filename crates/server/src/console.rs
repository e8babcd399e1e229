//! The console: pages for people.
//!
//! - `session` signs in and out; `visit` is who asks for what, and checks forms.
//! - `api` asks the API's own routes, so that a page shows and does what a program would.
//! - `markup`, `words` and `timeline` say what is shown, `shell` what surrounds it.
//! - `acts` are the forms; every other module is a page.
//!
//! Pages are plain documents: they can be read, and every act can be done, without script. The address
//! is the whole state of a page, and `GET` changes nothing.

mod acts;
mod api;
mod approvals;
mod assets;
mod doubts;
mod duplicates;
mod effect;
mod effects;
mod flows;
mod key;
mod markup;
mod overview;
mod records;
mod run;
mod runs;
mod session;
mod shell;
mod timeline;
mod visit;
mod words;

pub(crate) use api::LocalApi;

use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, STRICT_TRANSPORT_SECURITY,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use semel_api::Code;

use crate::access::{Access, Routes};
use crate::app::App;
use crate::error::{ApiError, IsProblem};
use visit::Visit;

/// Everything comes from here, nothing stands in line, and script cannot make markup of text.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types 'none'",
);

/// What every response of the console says.
const HEADERS: [(HeaderName, HeaderValue); 6] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
];

/// The routes of the console.
pub(crate) fn routes() -> Routes {
    let open = Access::Open("the page that signs in; a code is what it takes");
    let asset = Access::Open("a part of the program, the same for everybody");
    Routes::default()
        .get("/console", Access::Console, session::enter)
        .get("/console/sign-in", open, session::page)
        .post("/console/sign-in", open, session::submit)
        .get("/console/console.css", asset, assets::css)
        .get("/console/console.js", asset, assets::js)
        .get("/console/icon.svg", asset, assets::icon)
        .merge(reading())
        .merge(acting())
}

/// The pages.
fn reading() -> Routes {
    let page = Access::Console;
    Routes::default()
        .get("/console/{namespace}/", page, overview::page)
        .get("/console/{namespace}/runs", page, runs::page)
        .get("/console/{namespace}/runs/{run}", page, run::page)
        .get(
            "/console/{namespace}/runs/{run}/duplicates",
            page,
            duplicates::of_run,
        )
        .get("/console/{namespace}/keys", page, key::page)
        .get("/console/{namespace}/doubts", page, doubts::page)
        .get("/console/{namespace}/effects", page, effects::page)
        .get("/console/{namespace}/effects/{effect}", page, effect::page)
        .get("/console/{namespace}/approvals", page, approvals::page)
        .get(
            "/console/{namespace}/approvals/{approval}",
            page,
            approvals::show_one,
        )
        .get("/console/{namespace}/duplicates", page, duplicates::page)
        .get("/console/{namespace}/flows", page, flows::page)
        .get("/console/{namespace}/flows/{flow}", page, flows::show_one)
        .get("/console/{namespace}/audit", page, records::audit)
        .get("/console/{namespace}/tokens", page, records::tokens)
        .get("/console/{namespace}/json/{*rest}", page, records::json)
        .get("/console/{namespace}/{*rest}", page, nothing_there)
}

/// Any other page.
async fn nothing_there(_: Visit) -> ApiError {
    ApiError::plain(Code::RouteNotFound)
}

/// The forms.
fn acting() -> Routes {
    let settle = "/console/{namespace}/effects/{effect}/settle";
    let decide = "/console/{namespace}/approvals/{approval}/decide";
    let held = "/console/{namespace}/runs/{run}/duplicates/{duplicate}";
    let form = Access::Console;
    Routes::default()
        .post("/console/{namespace}/sign-out", form, session::leave)
        .post("/console/{namespace}/runs/{run}/cancel", form, run::cancel)
        .post("/console/{namespace}/runs/{run}/resume", form, run::resume)
        .post(held, form, duplicates::decide)
        .post(settle, form, effect::settle)
        .post(decide, form, approvals::decide)
}

/// Adds what every response says, and shows an error as a page.
pub(crate) async fn dress(State(app): State<App>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let mut response = match is_problem(&response) {
        true => explain(response).await,
        false => response,
    };
    let headers = response.headers_mut();
    headers.extend(HEADERS);
    if !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    if app.engine.options().public_url.starts_with("https://") {
        let year = HeaderValue::from_static("max-age=31536000");
        headers.insert(STRICT_TRANSPORT_SECURITY, year);
    }
    response
}

/// By what made it: a file that somebody uploaded may call itself a problem.
fn is_problem(response: &Response) -> bool {
    response.extensions().get::<IsProblem>().is_some()
}

async fn explain(response: Response) -> Response {
    let problem = match api::read(response).await {
        Ok(body) => serde_json::from_slice(&body).ok(),
        Err(_) => None,
    };
    let error = match problem {
        Some(problem) => ApiError::of(problem),
        None => ApiError::internal("an error that cannot be read"),
    };
    let mut page = shell::refuse(error);
    page.headers_mut().remove(WWW_AUTHENTICATE);
    page
}
