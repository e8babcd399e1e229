//! Replays of many runs: plan, show, apply, pause, stop.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use semel_api::Code;
use semel_api::types::{
    ChangePlan, Page, PlanReplay, PlanSummary, PlannedRun, PlannedRunFilter, ReplayPlan,
    ReplayPlanFilter,
};
use semel_engine::{JobMaker, PlanError, PlanWish};
use semel_model::run::RunState;
use semel_model::{ReplayPlanId, Right, RunId};
use semel_store::replay_plans::{self, ItemFilter, PlanChange, PlanItemView, PlanView};

use crate::answer::Answered;
use crate::app::App;
use crate::auth::Caller;
use crate::body::Payload;
use crate::commands::{self, Command, Reply};
use crate::cursor;
use crate::error::ApiError;
use crate::payloads::{self, HasPayload as _};
use crate::query::{Named, Params, page_size};

/// How many runs of a plan are replayed in a second, where nothing is said.
const PER_SECOND: i32 = 10;

/// `POST /v1/replay-plans`.
pub(crate) async fn plan(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let (asked, body): (PlanReplay, _) = payload.read()?;
    let command = Command {
        verb: "replay plan",
        subject: asked.flow.as_str(),
        body: &body,
        headers: &headers,
    };
    let (wish, actor, token) = (wish(&asked), caller.actor(), caller.id);
    let (at, namespace_id) = (app.clone(), caller.namespace_id);
    commands::once(app, &caller, command, async move {
        let by = JobMaker {
            actor: &actor,
            token: Some(token),
        };
        let plan = at.engine.plan_replay(namespace_id, &wish, by).await?;
        Reply::new(StatusCode::CREATED, &get(&at, namespace_id, plan).await?)
    })
    .await
}

fn wish(asked: &PlanReplay) -> PlanWish {
    PlanWish {
        flow: asked.flow.clone(),
        state: asked
            .state
            .map_or(RunState::Failed, |status| status.state()),
        since: asked.since,
        until: asked.until,
        code: asked.error.clone(),
        per_second: asked.per_second.unwrap_or(PER_SECOND),
        reason: asked.reason.clone(),
    }
}

/// `GET /v1/replay-plans`.
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(filter): Params<ReplayPlanFilter>,
) -> Answered {
    let before = cursor::read(filter.cursor.as_deref())?;
    let (home, limit) = (app.cell().home(), page_size(filter.limit));
    let found = replay_plans::list(home, caller.namespace_id, before, limit).await?;
    let page = Page {
        items: found.items.into_iter().map(view).collect(),
        next: found.next.map(cursor::write_position),
    };
    payloads::ok(&caller, page)
}

/// `GET /v1/replay-plans/{plan}`.
pub(crate) async fn show(State(app): State<App>, caller: Caller, plan: Named) -> Answered {
    let plan: ReplayPlanId = plan.read(Code::PlanNotFound)?;
    payloads::ok(&caller, get(&app, caller.namespace_id, plan).await?)
}

/// `GET /v1/replay-plans/{plan}/runs`.
pub(crate) async fn list_runs(
    State(app): State<App>,
    caller: Caller,
    plan: Named,
    Params(filter): Params<PlannedRunFilter>,
) -> Answered {
    let plan: ReplayPlanId = plan.read(Code::PlanNotFound)?;
    get(&app, caller.namespace_id, plan).await?;
    let after = filter.cursor.as_deref().map(str::parse::<RunId>);
    let wrong = |_| ApiError::new(Code::QueryInvalid, "`cursor` is not of this list");
    let after = after.transpose().map_err(wrong)?;
    let limit = page_size(filter.limit);
    let wanted = ItemFilter {
        state: filter.state.as_deref(),
        after,
    };
    let found = replay_plans::list_items(app.cell().home(), plan, wanted, limit).await?;
    let last = found.last().filter(|_| found.len() == usize::from(limit));
    let next = last.map(|last| last.run.to_string());
    let page = Page {
        items: found.into_iter().map(view_run).collect(),
        next,
    };
    payloads::ok(&caller, page)
}

/// `POST /v1/replay-plans/{plan}/apply`.
pub(crate) async fn apply(
    state: State<App>,
    caller: Caller,
    plan: Named,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let wanted = |asked: &ChangePlan| PlanChange::Apply {
        per_second: asked.per_second.map(|rate: i32| rate.clamp(1, 100)),
    };
    change(
        state,
        caller,
        plan,
        headers,
        payload,
        ("replay apply", wanted),
    )
    .await
}

/// `POST /v1/replay-plans/{plan}/pause`.
pub(crate) async fn pause(
    state: State<App>,
    caller: Caller,
    plan: Named,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let wanted = |_: &ChangePlan| PlanChange::Pause;
    change(
        state,
        caller,
        plan,
        headers,
        payload,
        ("replay pause", wanted),
    )
    .await
}

/// `POST /v1/replay-plans/{plan}/stop`.
pub(crate) async fn stop(
    state: State<App>,
    caller: Caller,
    plan: Named,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let wanted = |_: &ChangePlan| PlanChange::Stop;
    change(
        state,
        caller,
        plan,
        headers,
        payload,
        ("replay stop", wanted),
    )
    .await
}

async fn change(
    State(app): State<App>,
    caller: Caller,
    plan: Named,
    headers: HeaderMap,
    payload: Payload,
    (verb, wanted): (&'static str, fn(&ChangePlan) -> PlanChange),
) -> Answered {
    let id: ReplayPlanId = plan.read(Code::PlanNotFound)?;
    let (asked, body): (ChangePlan, _) = payload.read()?;
    let command = Command {
        verb,
        subject: plan.as_str(),
        body: &body,
        headers: &headers,
    };
    let (wanted, reason) = (wanted(&asked), asked.reason);
    let is_whole = caller.may(Right::Payload);
    let (actor, token) = (caller.actor(), caller.id);
    let (at, namespace_id) = (app.clone(), caller.namespace_id);
    commands::once(app, &caller, command, async move {
        let wanted = (wanted, reason.as_deref());
        let by = JobMaker {
            actor: &actor,
            token: Some(token),
        };
        let changed = at.engine.change_plan(namespace_id, id, wanted, by);
        changed.await?;
        let mut plan = get(&at, namespace_id, id).await?;
        if !is_whole {
            plan.leave_out();
        }
        Reply::new(StatusCode::ACCEPTED, &plan)
    })
    .await
}

async fn get(app: &App, namespace_id: i32, plan: ReplayPlanId) -> Result<ReplayPlan, ApiError> {
    let found = replay_plans::find(app.cell().home(), namespace_id, plan).await?;
    let found = found.ok_or_else(|| ApiError::plain(Code::PlanNotFound))?;
    let summaries = replay_plans::list_summaries(app.cell().home(), plan).await?;
    let summaries = summaries.into_iter().map(|it| PlanSummary {
        summary: it.summary,
        code: it.code,
        runs: it.run_count,
    });
    Ok(ReplayPlan {
        summaries: summaries.collect(),
        ..view(found)
    })
}

fn view(plan: PlanView) -> ReplayPlan {
    ReplayPlan {
        plan: plan.id,
        flow: plan.flow,
        release: plan.release,
        state: plan.state,
        per_second: plan.per_second,
        actor: plan.actor,
        reason: plan.reason,
        created_at: plan.created_at,
        runs: plan.run_count,
        previewed: plan.previewed_count,
        replayed: plan.replayed_count,
        refused: plan.refused_count,
        stopped_because: plan.stopped_because,
        summaries: Vec::new(),
    }
}

fn view_run(item: PlanItemView) -> PlannedRun {
    PlannedRun {
        run: item.run,
        state: item.state,
        summary: item.summary,
        next: item.next,
        code: item.code,
        note: item.note,
    }
}

impl From<PlanError> for ApiError {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Unknown => Self::plain(Code::PlanNotFound),
            PlanError::NoFlow => Self::plain(Code::FlowNotFound),
            PlanError::Empty | PlanError::TooMany | PlanError::State(_) => {
                Self::new(Code::PlanInvalid, error.to_string())
            }
            PlanError::Unfit(_) => Self::new(Code::PlanUnfit, error.to_string()),
            PlanError::Reason(error) => error.into(),
            PlanError::Unavailable(cause) => Self::database(&cause),
        }
    }
}
