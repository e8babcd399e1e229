//! Routes that need no token: senders, links, health and the API's document.

use std::sync::OnceLock;

use axum::response::Response;
use bytes::Bytes;
use semel_api::Code;
use semel_api::schema::{Alive, IgnoredDelivery, MismatchedDelivery, Ready, StaleDelivery};
use semel_api::types::{Called, Decide, DecidedApproval, Started};
use semel_model::Right::Instance;

use super::openapi_document;
use crate::access::{Access, Routes};
use crate::operation::Content;
use crate::{approvals, callbacks, health, hooks, metrics, openapi};

/// Why a health check needs no token.
pub(super) const HEALTH: Access =
    Access::Open("a load balancer has no token, and learns health and counts, no names");

const HTML: Content = Content::Other("text/html");
const TEXT: Content = Content::Other("text/plain");

/// The addresses that senders and people have, and what monitoring asks for.
pub(super) fn routes() -> Routes {
    senders()
        .merge(links())
        .get("/healthz", HEALTH, health::alive)
        .op("is_alive", "Whether the process answers.")
        .ok::<Alive>()
        .get("/readyz", HEALTH, health::ready)
        .op("is_ready", "Whether the server can take deliveries.")
        .ok::<Ready>()
        .answers::<Ready>(503)
        .get("/metrics", Access::Monitor(Instance), metrics::show)
        .op("read_metrics", "What the server counts, for Prometheus.")
        .answers_content(200, Content::Other("application/openmetrics-text"))
}

fn senders() -> Routes {
    let sender = Access::Open("the trigger verifies the sender by its own `auth`");
    let asks = Access::Open("a source asks whether it may deliver; nothing of the request is used");
    Routes::default()
        .post("/hooks/{namespace}/{path}", sender, hooks::receive)
        .op("deliver", "Deliver to the webhook trigger of a flow.")
        .takes_content(Content::AnyJson)
        .accepted::<Started>()
        .ok::<IgnoredDelivery>()
        .ok::<MismatchedDelivery>()
        .ok::<StaleDelivery>()
        // The result of a run, where the trigger says so.
        .answers_content(200, Content::AnyJson)
        .answers_content(200, TEXT)
        .answers::<Started>(422)
        .fails(super::INTAKE)
        .fails(&[
            Code::HookNotFound,
            Code::SignatureInvalid,
            Code::TooManyRequests,
            Code::BacklogFull,
            Code::QueryInvalid,
            Code::DatabaseUnavailable,
        ])
        .options("/hooks/{namespace}/{path}", asks, hooks::preflight)
        .op(
            "ask_to_deliver",
            "Ask whether a source of CloudEvents may deliver.",
        )
        .answers_content(200, Content::Nothing)
        .fails(&[
            Code::HookNotFound,
            Code::MethodNotAllowed,
            Code::DatabaseUnavailable,
        ])
}

fn links() -> Routes {
    let link = Access::Open("the address is the credential: it is signed and leads to one wait");
    let hint = Access::Open("it says how to use the address, and looks nothing up");
    Routes::default()
        .post("/callbacks/{token}", link, callbacks::receive)
        .op(
            "call_back",
            "Complete the wait that the address belongs to.",
        )
        .takes_content(Content::AnyJson)
        .ok::<Called>()
        .fails(&[
            Code::CallbackNotFound,
            Code::TooManyRequests,
            Code::DatabaseUnavailable,
        ])
        .get("/callbacks/{token}", hint, callbacks::explain)
        .op("explain_callback", "What the address of a callback is for.")
        .answers_content(200, HTML)
        .get("/approvals/{token}", link, approvals::page)
        .op("show_approval_page", "What is asked, as a page for people.")
        .answers_content(200, HTML)
        .answers_content(404, HTML)
        .answers_content(429, HTML)
        .answers_content(503, HTML)
        .post("/approvals/{token}", link, approvals::submit)
        .op(
            "submit_decision",
            "Decide, from the page's form or as JSON.",
        )
        .takes::<Decide>()
        .takes_content(Content::Other("application/x-www-form-urlencoded"))
        .ok::<DecidedApproval>()
        .answers_content(200, HTML)
        .answers_content(400, HTML)
        .answers_content(403, HTML)
        .answers_content(404, HTML)
        .answers_content(409, HTML)
        .answers_content(429, HTML)
        .answers_content(503, HTML)
        .fails(super::DECISION)
        .fails(&[Code::TooManyRequests, Code::DatabaseUnavailable])
}

/// The API's document.
pub(super) fn document() -> Routes {
    let public = Access::Open("the document is the same for everybody, and holds no secret");
    Routes::default()
        .get("/openapi.json", public, show_document)
        .op("get_openapi", "This document.")
        .answers_content(200, Content::AnyJson)
}

async fn show_document() -> Response {
    static TEXT: OnceLock<Bytes> = OnceLock::new();
    let text = TEXT.get_or_init(|| openapi_document().to_string().into());
    openapi::respond(text.clone())
}
