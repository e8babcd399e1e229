//! The console: pages for people.
//!
//! - `sign_in` signs in and out, `oidc` through an identity provider; `look` is light or dark; `visit` is who asks for what,
//!   and checks forms.
//! - `api` asks the API's own routes, so that a page shows and does what a program would.
//! - `markup`, `words` and `timeline` say what is shown, `shell` what surrounds it.
//! - `forms` are the acts that pages offer, and `live` says when a page has changed; every other module is a page.
//!
//! Pages are plain documents: they can be read, and every act can be done, without script. The address
//! is the whole state of a page, and `GET` changes nothing.

mod api;
mod approvals;
mod assets;
mod audit;
mod chart;
mod connections;
mod doubts;
mod duplicates;
mod effect;
mod effects;
mod empty;
mod events;
mod flow;
mod flows;
mod forms;
mod graph;
mod jobs;
mod key;
mod live;
mod look;
mod markup;
mod members;
mod named_runs;
mod oidc;
mod overview;
mod parameters;
mod records;
mod refusals;
mod release;
mod replays;
mod run;
mod runs;
mod schedules;
mod searches;
mod servers;
mod settings;
mod shell;
mod sign_in;
mod story;
mod subscriptions;
mod tasks;
mod text_diff;
mod timeline;
mod tokens;
mod visit;
mod waits;
mod words;

// The page of a run calls the forms by their old name.

pub(crate) use api::LocalApi;
pub(crate) use graph::{Graph, StepCounts};

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
use look::{Look, Theme};
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
    let provider = Access::Open("it ends what a cookie of this browser began, at the provider");
    let logout = Access::Open("the identity provider signs the token that it brings");
    let asset = Access::Open("a part of the program, the same for everybody");
    Routes::default()
        .get("/console", Access::Console, sign_in::enter)
        .get("/console/sign-in", open, sign_in::page)
        .post("/console/sign-in", open, sign_in::submit)
        .get("/console/sign-in/oidc", open, oidc::start)
        .get("/console/sign-in/oidc/callback", provider, oidc::finish)
        .post("/console/sign-in/oidc/logout", logout, oidc::log_out)
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
        .get("/console/{namespace}/live", page, live::follow)
        .get("/console/{namespace}/runs", page, runs::page)
        .get("/console/{namespace}/runs/{run}", page, run::page)
        .get(
            "/console/{namespace}/runs/{run}/duplicates",
            page,
            duplicates::of_run,
        )
        .get(
            "/console/{namespace}/runs/{run}/items",
            page,
            run::items::page,
        )
        .get(
            "/console/{namespace}/runs/{run}/replay",
            page,
            run::replay::page,
        )
        .get("/console/{namespace}/searches", page, searches::page)
        .get("/console/{namespace}/keys", page, key::page)
        .get("/console/{namespace}/doubts", page, doubts::page)
        .get(
            "/console/{namespace}/doubts/group",
            page,
            doubts::group::page,
        )
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
        .merge(flow_pages())
        .get("/console/{namespace}/schedules", page, schedules::page)
        .get(
            "/console/{namespace}/schedules/{flow}",
            page,
            schedules::show_one,
        )
        .get("/console/{namespace}/connections", page, connections::page)
        .get(
            "/console/{namespace}/connections/{name}",
            page,
            connections::show_one,
        )
        .get("/console/{namespace}/secrets", page, connections::secrets)
        .get(
            "/console/{namespace}/subscriptions",
            page,
            subscriptions::page,
        )
        .get(
            "/console/{namespace}/subscriptions/{name}",
            page,
            subscriptions::show_one,
        )
        .get("/console/{namespace}/events", page, events::page)
        .get(
            "/console/{namespace}/events/{event}",
            page,
            events::show_one,
        )
        .get("/console/{namespace}/servers", page, servers::page)
        .get("/console/{namespace}/tasks", page, tasks::page)
        .get("/console/{namespace}/jobs", page, jobs::page)
        .get("/console/{namespace}/jobs/new", page, jobs::plan)
        .get("/console/{namespace}/jobs/{job}", page, jobs::show_one)
        .get("/console/{namespace}/replays", page, replays::page)
        .get(
            "/console/{namespace}/replays/{plan}",
            page,
            replays::show_one,
        )
        .get("/console/{namespace}/settings", page, settings::page)
        .merge(record_pages())
        .get("/console/{namespace}/tokens", page, tokens::page)
        .get("/console/{namespace}/people", page, members::page)
        .get("/console/{namespace}/json/{*rest}", page, records::json)
        .get("/console/{namespace}/{*rest}", page, nothing_there)
}

/// The pages about what was done, refused and waited for.
fn record_pages() -> Routes {
    let page = Access::Console;
    Routes::default()
        .get("/console/{namespace}/audit", page, audit::page)
        .get("/console/{namespace}/audit/chain", page, audit::chain)
        .get("/console/{namespace}/audit/export", page, audit::export)
        .get("/console/{namespace}/refusals", page, refusals::page)
        .get("/console/{namespace}/waits", page, waits::page)
        .get("/console/{namespace}/waits/{wait}", page, waits::show_one)
}

/// The pages of one flow.
fn flow_pages() -> Routes {
    let page = Access::Console;
    let diff = "/console/{namespace}/flows/{flow}/diff/{range}";
    let rehearsal = "/console/{namespace}/flows/{flow}/releases/{release}/rehearsal";
    let rehearse = "/console/{namespace}/flows/{flow}/releases/{release}/rehearse";
    let promote = "/console/{namespace}/flows/{flow}/releases/{release}/promote";
    Routes::default()
        .get("/console/{namespace}/flows/{flow}", page, flow::page)
        .get(
            "/console/{namespace}/flows/{flow}/releases",
            page,
            flow::releases,
        )
        .get(diff, page, release::diff)
        .get(rehearsal, page, release::rehearsal)
        .post("/console/{namespace}/flows/{flow}/pause", page, flow::pause)
        .post(
            "/console/{namespace}/flows/{flow}/resume",
            page,
            flow::resume,
        )
        .post("/console/{namespace}/flows/{flow}/start", page, flow::start)
        .post(rehearse, page, release::rehearse)
        .post(promote, page, release::promote)
}

/// Any other page.
async fn nothing_there(_: Visit) -> ApiError {
    ApiError::plain(Code::RouteNotFound)
}

/// The forms.
fn acting() -> Routes {
    let settle = "/console/{namespace}/effects/{effect}/settle";
    let attend = |verb: &str| format!("/console/{{namespace}}/effects/{{effect}}/{verb}");
    let decide = "/console/{namespace}/approvals/{approval}/decide";
    let held = "/console/{namespace}/runs/{run}/duplicates/{duplicate}";
    let form = Access::Console;
    Routes::default()
        .post("/console/{namespace}/sign-out", form, sign_in::leave)
        .post(
            "/console/{namespace}/sign-out-everywhere",
            form,
            sign_in::leave_everywhere,
        )
        .post("/console/{namespace}/look", form, sign_in::set_look)
        .post("/console/{namespace}/searches", form, searches::save)
        .post(
            "/console/{namespace}/searches/forget",
            form,
            searches::forget,
        )
        .post("/console/{namespace}/keys/drop", form, key::carry_out)
        .post("/console/{namespace}/runs/{run}/cancel", form, run::cancel)
        .post("/console/{namespace}/runs/{run}/resume", form, run::resume)
        .post(
            "/console/{namespace}/runs/{run}/replay",
            form,
            run::replay::carry_out,
        )
        .post(held, form, duplicates::decide)
        .post(settle, form, effect::settle)
        .post(&attend("assign"), form, effect::assign)
        .post(&attend("note"), form, effect::note)
        .post(&attend("snooze"), form, effect::snooze)
        .post(decide, form, approvals::decide)
        .post(
            "/console/{namespace}/waits/{wait}/complete",
            form,
            waits::complete,
        )
        .post(
            "/console/{namespace}/doubts/group",
            form,
            doubts::group::settle,
        )
        .merge(operating())
}

/// The forms about what surrounds runs.
fn operating() -> Routes {
    let form = Access::Console;
    let retry = "/console/{namespace}/subscriptions/{name}/deliveries/{event}/retry";
    let schedule = |verb: &str| format!("/console/{{namespace}}/schedules/{{flow}}/{verb}");
    let connection = |verb: &str| format!("/console/{{namespace}}/connections/{{name}}/{verb}");
    let test_alerts = "/console/{namespace}/settings/test-alerts";
    Routes::default()
        .post(&schedule("pause"), form, schedules::pause)
        .post(&schedule("resume"), form, schedules::resume)
        .post(&schedule("fire"), form, schedules::fire)
        .post(&connection("pause"), form, connections::pause)
        .post(&connection("resume"), form, connections::resume)
        .post(&connection("test"), form, connections::test)
        .post(retry, form, subscriptions::retry)
        .post("/console/{namespace}/jobs", form, jobs::make)
        .post("/console/{namespace}/jobs/{job}/stop", form, jobs::stop)
        .post("/console/{namespace}/replays", form, replays::plan)
        .post(
            "/console/{namespace}/replays/{plan}/change",
            form,
            replays::change,
        )
        .post(test_alerts, form, settings::test_alerts)
        .post("/console/{namespace}/tokens", form, tokens::create)
        .post(
            "/console/{namespace}/tokens/{token}/revoke",
            form,
            tokens::revoke,
        )
        .post(
            "/console/{namespace}/people/groups",
            form,
            members::change_group,
        )
        .post(
            "/console/{namespace}/people/{person}",
            form,
            members::change_person,
        )
}

/// Adds what every response says, and shows an error as a page.
pub(crate) async fn dress(State(app): State<App>, request: Request, next: Next) -> Response {
    let theme = Look::of(request.headers()).theme;
    let response = next.run(request).await;
    let mut response = match is_problem(&response) {
        true => explain(response, theme).await,
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

async fn explain(response: Response, theme: Theme) -> Response {
    let problem = match api::read(response).await {
        Ok(body) => serde_json::from_slice(&body).ok(),
        Err(_) => None,
    };
    let error = match problem {
        Some(problem) => ApiError::of(problem),
        None => ApiError::internal("an error that cannot be read"),
    };
    let mut page = shell::refuse(error, theme);
    page.headers_mut().remove(WWW_AUTHENTICATE);
    page
}
