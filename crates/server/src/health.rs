//! `/healthz` and `/readyz`: whether the process lives, and whether it can take deliveries.

use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;

use crate::answer::{self, Answered};
use crate::app::App;

#[derive(Serialize)]
struct Alive {
    alive: bool,
}

#[derive(Serialize)]
struct Ready {
    ready: bool,
    database: bool,
    session: bool,
}

/// The process answers.
pub(crate) async fn alive() -> Answered {
    answer::ok(&Alive { alive: true })
}

/// The database answered the last check, and the worker session is alive.
pub(crate) async fn ready(State(app): State<App>) -> Answered {
    let database = app.pulse.database_answers();
    let session = app.engine.has_live_session();
    let ready = database && session;
    let status = match ready {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    let body = Ready {
        ready,
        database,
        session,
    };
    answer::json(status, &body)
}
