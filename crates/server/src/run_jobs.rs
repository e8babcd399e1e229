//! Cancelling and resuming many runs: preview, apply, stop, list, show.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use semel_api::Code;
use semel_api::types::{
    AskRunJob, Page, RefusedRun, RunJob, RunJobFilter, RunJobPlan, RunJobStateCount, RunJobVerb,
    RunStatus, StopRunJob,
};
use semel_engine::{JobMaker, RunJobError, RunJobWish};
use semel_model::{Right, RunJobId};
use semel_store::run_jobs::{self, JobVerb, JobView};

use crate::answer::{self, Answered};
use crate::app::App;
use crate::auth::Caller;
use crate::body::Payload;
use crate::commands::{self, Command, Reply};
use crate::cursor;
use crate::error::ApiError;
use crate::payloads::{self, HasPayload as _};
use crate::query::{Named, Params, page_size};

/// How many runs of a plan are shown.
const SHOWN_MAX: usize = 20;

/// `POST /v1/run-jobs/preview`.
pub(crate) async fn preview(State(app): State<App>, caller: Caller, payload: Payload) -> Answered {
    let (asked, _): (AskRunJob, _) = payload.read()?;
    let wish = wish(&asked)?;
    let plan = app.engine.plan_run_job(caller.namespace_id, &wish).await?;
    let mut states: BTreeMap<String, usize> = BTreeMap::new();
    for planned in &plan.runs {
        *states.entry(planned.state.clone()).or_default() += 1;
    }
    let states = states.into_iter();
    answer::ok(&RunJobPlan {
        verb: asked.verb,
        flow: asked.flow,
        count: plan.runs.len(),
        states: states
            .map(|(state, count)| RunJobStateCount { state, count })
            .collect(),
        runs: plan.runs.iter().take(SHOWN_MAX).map(|it| it.run).collect(),
        digest: plan.digest,
    })
}

/// `POST /v1/run-jobs`.
pub(crate) async fn make(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let (asked, body): (AskRunJob, _) = payload.read()?;
    let missing = |field: &str| ApiError::new(Code::BodyInvalid, format!("`{field}` is missing"));
    let digest = asked.digest.clone().ok_or_else(|| missing("digest"))?;
    let reason = asked.reason.clone().ok_or_else(|| missing("reason"))?;
    let command = Command {
        verb: match asked.verb {
            RunJobVerb::Cancel => "run cancel many",
            RunJobVerb::Resume => "run resume many",
        },
        subject: asked.flow.as_str(),
        body: &body,
        headers: &headers,
    };
    let (wish, actor, token) = (wish(&asked)?, caller.actor(), caller.id);
    let (at, namespace_id) = (app.clone(), caller.namespace_id);
    commands::once(app, &caller, command, async move {
        let asked = (digest.as_str(), reason.as_str());
        let by = JobMaker {
            actor: &actor,
            token: Some(token),
        };
        let made = at.engine.make_run_job(namespace_id, &wish, asked, by);
        let job = made.await?;
        Reply::new(StatusCode::CREATED, &get(&at, namespace_id, job).await?)
    })
    .await
}

/// `POST /v1/run-jobs/{job}/stop`.
pub(crate) async fn stop(
    State(app): State<App>,
    caller: Caller,
    job: Named,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let id: RunJobId = job.read(Code::JobNotFound)?;
    let (StopRunJob { reason }, body) = payload.read()?;
    let command = Command {
        verb: "run stop many",
        subject: job.as_str(),
        body: &body,
        headers: &headers,
    };
    let (at, actor, namespace_id) = (app.clone(), caller.actor(), caller.namespace_id);
    let is_whole = caller.may(Right::Payload);
    commands::once(app, &caller, command, async move {
        // One that has ended stays as it is.
        let stopped = at.engine.stop_run_job(namespace_id, id, &reason, &actor);
        stopped.await?;
        let mut job = get(&at, namespace_id, id).await?;
        if !is_whole {
            job.leave_out();
        }
        Reply::new(StatusCode::OK, &job)
    })
    .await
}

/// `GET /v1/run-jobs`.
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(filter): Params<RunJobFilter>,
) -> Answered {
    let before = cursor::read(filter.cursor.as_deref())?;
    let (home, limit) = (app.cell().home(), page_size(filter.limit));
    let found = run_jobs::list(home, caller.namespace_id, before, limit).await?;
    let page = Page {
        items: found.items.into_iter().map(view).collect(),
        next: found.next.map(cursor::write_position),
    };
    payloads::ok(&caller, page)
}

/// `GET /v1/run-jobs/{job}`.
pub(crate) async fn show(State(app): State<App>, caller: Caller, job: Named) -> Answered {
    let job: RunJobId = job.read(Code::JobNotFound)?;
    payloads::ok(&caller, get(&app, caller.namespace_id, job).await?)
}

async fn get(app: &App, namespace_id: i32, job: RunJobId) -> Result<RunJob, ApiError> {
    let home = app.cell().home();
    let found = run_jobs::find(home, namespace_id, job).await?;
    let found = found.ok_or_else(|| ApiError::plain(Code::JobNotFound))?;
    let refused = run_jobs::list_refused(app.cell().home(), job).await?;
    let refusals = refused.into_iter();
    Ok(RunJob {
        refusals: refusals
            .map(|(run, code, note)| RefusedRun { run, code, note })
            .collect(),
        ..view(found)
    })
}

fn wish(asked: &AskRunJob) -> Result<RunJobWish, ApiError> {
    let state = asked.state.map(|status| status.state());
    // A run changes between those words from one moment to the next.
    if let (Some(status), Some(state)) = (asked.state, state)
        && status != RunStatus::from(state)
    {
        let detail = format!("write `{state}` for runs that are {status}");
        return Err(ApiError::new(Code::JobInvalid, detail));
    }
    Ok(RunJobWish {
        verb: match asked.verb {
            RunJobVerb::Cancel => JobVerb::Cancel,
            RunJobVerb::Resume => JobVerb::Resume,
        },
        flow: asked.flow.clone(),
        state,
        after: asked.after,
        before: asked.before,
    })
}

fn view(job: JobView) -> RunJob {
    RunJob {
        job: job.id,
        verb: job.verb,
        flow: job.flow,
        state: job.state,
        digest: job.digest,
        by: job.actor,
        reason: job.reason,
        created_at: job.created_at,
        count: job.run_count,
        done: job.done_count,
        refused: job.refused_count,
        stopped_because: job.stopped_because,
        refusals: Vec::new(),
    }
}

impl From<RunJobError> for ApiError {
    fn from(error: RunJobError) -> Self {
        match error {
            RunJobError::NoFlow => Self::plain(Code::FlowNotFound),
            RunJobError::Empty
            | RunJobError::TooMany
            | RunJobError::TooWide
            | RunJobError::State(_) => Self::new(Code::JobInvalid, error.to_string()),
            RunJobError::Changed => Self::new(Code::JobChanged, error.to_string()),
            RunJobError::Reason(error) => error.into(),
            RunJobError::Unavailable(cause) => Self::database(&cause),
        }
    }
}
