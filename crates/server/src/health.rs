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
    paused: usize,
    late_services: usize,
    alerts: AlertsHealth,
}

/// Whether people are told. It does not decide whether the process is ready.
#[derive(Serialize)]
struct AlertsHealth {
    /// How many namespaces have alerts that do not arrive.
    failing: u64,
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
        // How many flows and connections: runs that do not move are no fault of this server.
        paused: app.engine.count_paused(),
        // Another server may do them, and this one can take deliveries.
        late_services: app.engine.count_late_services(),
        alerts: AlertsHealth {
            failing: app.engine.metrics().alerts_failing.get(),
        },
    };
    answer::json(status, &body)
}
