//! Pauses of flows and connections: list, pause, resume.

use std::collections::HashMap;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use semel_api::Code;
use semel_api::types::{AskPause, AskResume, Page, Pause, PauseChange};
use semel_engine::PauseCommandError;
use semel_model::{FlowName, Label};
use semel_store::ReadError;
use semel_store::pauses::{self, PauseKind, PauseView};

use crate::answer::{self, Answered};
use crate::app::App;
use crate::auth::Caller;
use crate::body::Payload;
use crate::commands::{self, Command, Reply};
use crate::error::ApiError;
use crate::query::Named;

/// `GET /v1/pauses`.
pub(crate) async fn list(State(app): State<App>, caller: Caller) -> Answered {
    let open = pauses::list_open(app.cell().home(), caller.namespace_id).await?;
    answer::ok(&Page {
        items: open.into_iter().map(view).collect(),
        next: None,
    })
}

/// `POST /v1/flows/{flow}/pause`.
pub(crate) async fn pause_flow(
    State(app): State<App>,
    caller: Caller,
    flow: Named,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let name: FlowName = flow.flow()?;
    let subject = (PauseKind::Flow, name.to_string());
    pause(app, caller, subject, &headers, payload).await
}

/// `POST /v1/connections/{name}/pause`.
pub(crate) async fn pause_connection(
    State(app): State<App>,
    caller: Caller,
    name: Named,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let name: Label = name.read(Code::ConnectionNotFound)?;
    let subject = (PauseKind::Connection, name.to_string());
    pause(app, caller, subject, &headers, payload).await
}

/// `POST /v1/flows/{flow}/resume`.
pub(crate) async fn resume_flow(
    State(app): State<App>,
    caller: Caller,
    flow: Named,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let name: FlowName = flow.flow()?;
    let subject = (PauseKind::Flow, name.to_string());
    resume(app, caller, subject, &headers, payload).await
}

/// `POST /v1/connections/{name}/resume`.
pub(crate) async fn resume_connection(
    State(app): State<App>,
    caller: Caller,
    name: Named,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let name: Label = name.read(Code::ConnectionNotFound)?;
    let subject = (PauseKind::Connection, name.to_string());
    resume(app, caller, subject, &headers, payload).await
}

async fn pause(
    app: App,
    caller: Caller,
    (kind, name): (PauseKind, String),
    headers: &HeaderMap,
    payload: Payload,
) -> Answered {
    let (AskPause { reason }, body) = payload.read()?;
    let command = Command {
        verb: match kind {
            PauseKind::Flow => "flow pause",
            PauseKind::Connection => "connection pause",
        },
        subject: &name.clone(),
        body: &body,
        headers,
    };
    let (engine, asking) = (app.engine.clone(), caller.clone());
    commands::once(app, &caller, command, async move {
        let actor = asking.actor();
        let by = asking.acting(&actor);
        let changed = engine.pause(by, (kind, name.as_str()), &reason).await?;
        tracing::info!(kind = kind.as_str(), name, actor, changed, "paused");
        Reply::new(StatusCode::OK, &told(kind, name, true, changed))
    })
    .await
}

async fn resume(
    app: App,
    caller: Caller,
    (kind, name): (PauseKind, String),
    headers: &HeaderMap,
    payload: Payload,
) -> Answered {
    let (AskResume { reason, per_second }, body) = payload.read()?;
    let command = Command {
        verb: match kind {
            PauseKind::Flow => "flow resume",
            PauseKind::Connection => "connection resume",
        },
        subject: &name.clone(),
        body: &body,
        headers,
    };
    let (engine, asking) = (app.engine.clone(), caller.clone());
    commands::once(app, &caller, command, async move {
        let actor = asking.actor();
        let (by, subject) = (asking.acting(&actor), (kind, name.as_str()));
        let resumed = engine.resume_paused(by, subject, per_second, reason.as_deref());
        let changed = resumed.await?;
        tracing::info!(kind = kind.as_str(), name, actor, changed, "resumed");
        Reply::new(StatusCode::OK, &told(kind, name, false, changed))
    })
    .await
}

fn told(kind: PauseKind, name: String, paused: bool, changed: bool) -> PauseChange {
    PauseChange {
        kind: kind.as_str().to_owned(),
        name,
        paused,
        changed,
    }
}

/// The pauses of a namespace's flows or connections, by name.
pub(crate) async fn by_name(
    app: &App,
    namespace_id: i32,
    kind: PauseKind,
) -> Result<HashMap<String, Pause>, ReadError> {
    let open = pauses::list_open(app.cell().home(), namespace_id).await?;
    let of_kind = open.into_iter().filter(|pause| pause.kind == kind);
    Ok(of_kind
        .map(|pause| (pause.name.clone(), view(pause)))
        .collect())
}

/// A pause in its wire form.
fn view(pause: PauseView) -> Pause {
    Pause {
        kind: pause.kind.as_str().to_owned(),
        name: pause.name,
        reason: pause.reason,
        by: pause.actor,
        since: pause.paused_at,
        held_runs: Some(pause.held_count),
    }
}

/// The pause that a run sleeps for.
pub(crate) async fn of_run(app: &App, run: semel_model::RunId) -> Result<Option<Pause>, ReadError> {
    let found = pauses::find_of_run(app.cell().of(run), run).await?;
    Ok(found.map(|pause| Pause {
        held_runs: None,
        ..view(pause)
    }))
}

impl From<PauseCommandError> for ApiError {
    fn from(error: PauseCommandError) -> Self {
        match error {
            PauseCommandError::Unknown(PauseKind::Flow) => Self::plain(Code::FlowNotFound),
            PauseCommandError::Unknown(PauseKind::Connection) => {
                Self::plain(Code::ConnectionNotFound)
            }
            PauseCommandError::Unsettled => Self::new(Code::PauseUnsettled, error.to_string()),
            PauseCommandError::TooMany(span) => {
                Self::new(Code::TooManyRequests, error.to_string()).retry_in(span)
            }
            PauseCommandError::Rate => Self::new(Code::BodyInvalid, error.to_string()),
            PauseCommandError::Reason(error) => error.into(),
            PauseCommandError::Unavailable(cause) => Self::database(&cause),
        }
    }
}
