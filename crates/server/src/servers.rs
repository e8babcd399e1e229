//! Servers: which are alive, what they hold, and how much there is to do. For the whole installation.

use axum::extract::State;
use semel_api::types::{QueueDepth, Server, ServerState, Servers, ServiceFailures};
use semel_store::queue;
use semel_store::sessions::{self, SessionView};

use crate::answer::{self, Answered};
use crate::app::App;
use crate::auth::Caller;

/// `GET /v1/servers`.
pub(crate) async fn list(State(app): State<App>, _caller: Caller) -> Answered {
    let found = sessions::list(app.cell().every()).await?;
    let depth = queue::depth(app.cell().every()).await?;
    let failures = app.engine.metrics().service_failures.list();
    answer::ok(&Servers {
        servers: found.into_iter().map(view).collect(),
        queue: QueueDepth {
            held: depth.held,
            due: depth.due,
            oldest_due_seconds: depth.oldest_secs,
        },
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
