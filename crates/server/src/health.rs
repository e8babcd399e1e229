//! `/healthz` and `/readyz`: whether the process lives, and whether it can take deliveries.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use semel_store::flows;
use serde::Serialize;

use crate::answer::{self, Answered};
use crate::app::App;

/// How long the database may take to show that it is there.
const DATABASE_PATIENCE: Duration = Duration::from_secs(1);

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

/// The database answers and the worker session lives.
pub(crate) async fn ready(State(app): State<App>) -> Answered {
    let database = database_answers(&app).await;
    let session = app.engine.is_leading_a_live_session();
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

async fn database_answers(app: &App) -> bool {
    let asked = tokio::time::timeout(DATABASE_PATIENCE, flows::version(app.cell())).await;
    matches!(asked, Ok(Ok(_)))
}
