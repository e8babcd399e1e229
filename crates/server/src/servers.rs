//! Servers: which are alive, what they hold, how much there is to do, and whether background services are done in time. For
//! the whole installation.

use axum::extract::State;
use semel_api::types::{
    QueueDepth, Server, ServerState, Servers, ServiceFailures, ServiceState, ServiceStatus,
};
use semel_engine::{ServiceView, Timeliness};
use semel_store::queue;
use semel_store::sessions::{self, SessionView};

use crate::answer::{self, Answered};
use crate::app::App;
use crate::auth::Caller;

/// `GET /v1/servers`.
pub(crate) async fn list(State(app): State<App>, _caller: Caller) -> Answered {
    let found = sessions::list(app.cell().every()).await?;
    let depth = queue::depth(app.cell().every()).await?;
    let services = app.engine.list_services();
    let failures = app.engine.metrics().service_failures.list();
    answer::ok(&Servers {
        servers: found.into_iter().map(view).collect(),
        queue: QueueDepth {
            held: depth.held,
            due: depth.due,
            oldest_due_seconds: depth.oldest_secs,
        },
        services: services.into_iter().map(status).collect(),
        failing: failures
            .into_iter()
            .map(|(service, failed)| ServiceFailures {
                service: service.to_owned(),
                failed,
            })
            .collect(),
    })
}

fn view(session: SessionView) -> Server {
    Server {
        session: session.id.to_string(),
        process: session.process,
        version: session.version,
        state: match session.is_live {
            true => ServerState::Live,
            false => ServerState::Expired,
        },
        started_at: session.started_at,
        expires_at: session.expires_at,
        held: session.held,
    }
}

fn status(service: ServiceView) -> ServiceStatus {
    let hint = service.what_to_do();
    let (failed_at, failed_by, error) = match service.failure {
        Some(failure) => (Some(failure.at), Some(failure.by), Some(failure.error)),
        None => (None, None, None),
    };
    ServiceStatus {
        service: service.name.to_owned(),
        is_duty: service.is_duty,
        held_here: service.is_held_here,
        state: match service.timeliness {
            Timeliness::OnTime => ServiceState::OnTime,
            Timeliness::Covered => ServiceState::Covered,
            Timeliness::Late => ServiceState::Late,
        },
        finished_seconds: service.silent.as_secs_f64(),
        late_after_seconds: service.late_after.as_secs_f64(),
        finished_by: match service.timeliness {
            Timeliness::Covered => service.covered_by,
            Timeliness::OnTime | Timeliness::Late => service.finished_by,
        },
        failed_at,
        failed_by,
        error,
        hint,
    }
}
