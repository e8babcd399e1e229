//! Runs: list, show, follow, cancel, resume.

mod archived;
mod archiving;
mod behind_key;
mod detail;
mod erase;
mod listing;

pub(crate) use archived::{explain, find_items};
pub use archiving::RunFiles;
pub(crate) use detail::show;
pub(crate) use erase::erase;
pub(crate) use listing::list;

use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use semel_api::Code;
use semel_api::types::{Cancel, Cancelled, Resume, Resumed, Run, RunStatus};
use semel_engine::{CancelError, ResumeError, Wish};
use semel_model::{ClaimId, FlowName, Key, RunId, Span};
use semel_store::runs::{self, RunView};
use semel_store::{ReadError, claims, flows};
use serde::Deserialize;

use crate::answer::{Answered, read_json};
use crate::app::App;
use crate::auth::Caller;
use crate::body::Payload;
use crate::commands::{self, Command, Reply};
use crate::error::ApiError;
use crate::payloads;
use crate::query::{Named, Params, patience};

/// How many runs of one key a search looks for, where the key expired in between.
const INCARNATIONS_MAX: u32 = 8;

/// The newest runs of a key, in one flow or in all, newest first. The ids of its claims are derived
/// from the key, and a claim knows how many runs it has made.
pub(crate) async fn find_by_key(
    app: &App,
    caller: &Caller,
    flow: Option<&FlowName>,
    key: &Key,
) -> Result<Vec<RunView>, ApiError> {
    let names: Vec<FlowName> = match flow {
        Some(flow) => vec![flow.clone()],
        None => flows::list_names(app.cell().home(), caller.namespace_id)
            .await?
            .iter()
            .filter_map(|name| name.parse().ok())
            .collect(),
    };
    let claims: Vec<ClaimId> = names
        .iter()
        .flat_map(|flow| ClaimId::derive_all(&caller.namespace, flow, key))
        .collect();
    let ids = claims::list_newest_runs(app.cell().every(), &claims, INCARNATIONS_MAX).await?;
    Ok(runs::find_many(app.cell().every(), caller.namespace_id, &ids).await?)
}

/// `?for=`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Watch {
    #[serde(rename = "for", default)]
    span: Option<Span>,
}

/// `GET /v1/runs/{run}/wait`: the run at its end, or in its state when the time is over.
pub(crate) async fn watch(
    State(app): State<App>,
    caller: Caller,
    run: Named,
    Params(Watch { span }): Params<Watch>,
) -> Answered {
    let id = run.read(Code::RunNotFound)?;
    // The namespace is checked first: another namespace must not learn when the run ends.
    let found = runs::find(app.cell().of(id), caller.namespace_id, id).await?;
    let Some(run) = found else {
        let archived = archived::find(&app, &caller, id).await?;
        let archived = archived.ok_or_else(|| ApiError::plain(Code::RunNotFound))?;
        return payloads::ok(&caller, archived.0.run);
    };
    let patience = patience(span, app.options.wait_max);
    if run.state.is_ended() || patience.is_zero() {
        return payloads::ok(&caller, view(&run));
    }
    await_end(&app, id, patience).await?;
    payloads::ok(&caller, view(&get(&app, &caller, id).await?))
}

/// Waits for a run's end, but not beyond the server's shutdown.
pub(crate) async fn await_end(
    app: &App,
    run: RunId,
    patience: Duration,
) -> Result<Option<runs::RunSnapshot>, ReadError> {
    tokio::select! {
        snapshot = app.engine.await_end(run, patience) => snapshot,
        () = app.shutdown.cancelled() => app.engine.await_end(run, Duration::ZERO).await,
    }
}

/// `POST /v1/runs/{run}/cancel`.
pub(crate) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    run: Named,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let id: RunId = run.read(Code::RunNotFound)?;
    let (Cancel { reason }, body) = payload.read()?;
    let command = Command {
        verb: "cancel",
        subject: run.as_str(),
        body: &body,
        headers: &headers,
    };
    let (asked, actor) = (app.clone(), caller.actor());
    let namespace_id = caller.namespace_id;
    commands::once(app, &caller, command, async move {
        let done = asked.engine.cancel(namespace_id, id, &reason, &actor);
        if let Err(error) = done.await {
            return Err(explain(&asked, namespace_id, id, error.into()).await);
        }
        let done = Cancelled {
            run: id,
            cancelling: true,
        };
        Reply::new(StatusCode::ACCEPTED, &done)
    })
    .await
}

/// `POST /v1/runs/{run}/resume`.
pub(crate) async fn resume(
    State(app): State<App>,
    caller: Caller,
    run: Named,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let id: RunId = run.read(Code::RunNotFound)?;
    let (Resume { reason, ask_again }, body) = payload.read()?;
    let command = Command {
        verb: "resume",
        subject: run.as_str(),
        body: &body,
        headers: &headers,
    };
    let (asked, actor) = (app.clone(), caller.actor());
    let namespace_id = caller.namespace_id;
    commands::once(app, &caller, command, async move {
        let wish = Wish {
            reason: &reason,
            ask_again,
        };
        let done = asked.engine.resume(namespace_id, id, wish, &actor);
        if let Err(error) = done.await {
            return Err(explain(&asked, namespace_id, id, error.into()).await);
        }
        let done = Resumed {
            run: id,
            resumed: true,
        };
        Reply::new(StatusCode::ACCEPTED, &done)
    })
    .await
}

impl From<ResumeError> for ApiError {
    fn from(error: ResumeError) -> Self {
        match error {
            ResumeError::Unknown => Self::plain(Code::RunNotFound),
            ResumeError::Unfit { .. } => Self::new(Code::NotResumable, error.to_string()),
            ResumeError::Reason(error) => error.into(),
            ResumeError::Busy => Self::busy(),
            ResumeError::Inconsistent(_) => Self::new(Code::JournalInconsistent, error.to_string()),
            ResumeError::Unavailable(cause) => Self::database(&cause),
        }
    }
}

impl From<CancelError> for ApiError {
    fn from(error: CancelError) -> Self {
        match error {
            CancelError::Unknown => Self::plain(Code::RunNotFound),
            CancelError::Ended => Self::plain(Code::RunEnded),
            CancelError::Reason(error) => error.into(),
            CancelError::Unavailable(cause) => Self::database(&cause),
        }
    }
}

/// A run of the caller's namespace that is in the database.
pub(crate) async fn get(app: &App, caller: &Caller, run: RunId) -> Result<RunView, ApiError> {
    let namespace_id = caller.namespace_id;
    match runs::find(app.cell().of(run), namespace_id, run).await? {
        Some(found) => Ok(found),
        None => {
            let unknown = ApiError::plain(Code::RunNotFound);
            Err(explain(app, namespace_id, run, unknown).await)
        }
    }
}

/// A run in its wire form.
pub(crate) fn view(run: &RunView) -> Run {
    Run {
        id: run.id,
        flow: run.flow.clone(),
        release: run.release,
        key: run.key.text(),
        state: run_status(run),
        accepted_at: run.accepted_at,
        ended_at: run.ended_at,
        due_at: run.due_at,
        result: read_json(run.result.as_deref()),
        fault: read_json(run.fault.as_deref()),
        cancelling: run.cancelling,
        erased_at: run.erased_at,
        archived_at: None,
        parent: run.parent,
    }
}

/// The state of a run.
pub(crate) fn run_status(run: &RunView) -> RunStatus {
    run.state_word()
        .parse()
        .unwrap_or_else(|_| RunStatus::from(run.state))
}
