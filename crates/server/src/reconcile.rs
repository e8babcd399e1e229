//! Reconcile passes: ask for one, list and show them.

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use semel_api::Code;
use semel_api::types::{
    AskReconcile, AskedReconcile, Page, PassFilter, PassItem, ReconcilePass, ReconcilePassDetail,
};
use semel_engine::ReconcileError;
use semel_model::{FlowName, ScheduleId, Span};
use semel_store::reconcile_passes::{self as passes, ReconcileItem};

use crate::answer::Answered;
use crate::app::App;
use crate::auth::Caller;
use crate::body::Payload;
use crate::commands::{self, Command, Reply};
use crate::error::ApiError;
use crate::payloads;
use crate::query::{Named, Params, page_size};

/// How soon to ask again while a pass is under way that looks less far back, in seconds.
const UNDER_WAY_REST_SECS: u64 = 10;

/// `POST /v1/reconcile/{flow}`.
pub(crate) async fn ask(
    State(app): State<App>,
    caller: Caller,
    flow: Named,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let flow: FlowName = flow.read(Code::ReconcileNotFound)?;
    let (ask, body): (AskReconcile, _) = payload.read()?;
    let command = Command {
        verb: "reconcile run",
        subject: flow.as_str(),
        body: &body,
        headers: &headers,
    };
    let (engine, asking, flow) = (app.engine.clone(), caller.clone(), flow.clone());
    commands::once(app, &caller, command, async move {
        let actor = asking.actor();
        let by = asking.acting(&actor);
        let of = (&asking.namespace, &flow);
        let dry_run = ask.dry_run;
        let nominal = engine.ask_reconcile(by, of, ask.since, dry_run).await?;
        tracing::info!(%flow, actor, dry_run, "reconcile pass asked for");
        let asked = AskedReconcile {
            flow,
            nominal,
            dry_run,
        };
        Reply::new(StatusCode::CREATED, &asked)
    })
    .await
}

/// `GET /v1/reconcile/{flow}`.
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    flow: Named,
    Params(filter): Params<PassFilter>,
) -> Answered {
    let flow: FlowName = flow.read(Code::ReconcileNotFound)?;
    let id = ScheduleId::derive(&caller.namespace, &flow);
    let (cell, limit) = (app.cell().of(id), page_size(filter.limit));
    let found = passes::list(cell, caller.namespace_id, id, limit).await?;
    let items = found.into_iter().map(view).collect();
    payloads::ok(&caller, Page { items, next: None })
}

/// `GET /v1/reconcile/{flow}/{nominal}`.
pub(crate) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path((flow, nominal)): Path<(String, String)>,
    Params(filter): Params<PassFilter>,
) -> Answered {
    let missing = || ApiError::plain(Code::ReconcileNotFound);
    let flow: FlowName = flow.parse().map_err(|_| missing())?;
    let nominal: Timestamp = nominal.parse().map_err(|_| missing())?;
    let pass = (ScheduleId::derive(&caller.namespace, &flow), nominal);
    let cell = app.cell().of(pass.0);
    let found = passes::find(cell, caller.namespace_id, pass).await?;
    let found = found.ok_or_else(missing)?;
    let items = passes::list_items(cell, pass, page_size(filter.limit)).await?;
    let detail = ReconcilePassDetail {
        pass: view(found),
        items: items.into_iter().map(view_item).collect(),
    };
    payloads::ok(&caller, detail)
}

fn view(pass: passes::ReconcilePass) -> ReconcilePass {
    let counts = pass.counts;
    ReconcilePass {
        flow: pass.new.flow,
        nominal: pass.new.nominal,
        state: pass.state,
        window_start: pass.new.window_start,
        dry_run: pass.new.dry_run,
        asked_by: pass.new.asked_by,
        pages: pass.page,
        listed: counts.listed,
        known: counts.known,
        started: counts.started,
        differing: counts.differing,
        unreadable: counts.unreadable,
        left_out: counts.left_out,
        fault: pass.fault,
        opened_at: pass.opened_at,
        ended_at: pass.ended_at,
    }
}

fn view_item(item: ReconcileItem) -> PassItem {
    PassItem {
        verdict: item.verdict.as_str().to_owned(),
        key: item.key,
        run: item.run,
        note: item.note,
    }
}

impl From<ReconcileError> for ApiError {
    fn from(error: ReconcileError) -> Self {
        let detail = error.to_string();
        match error {
            ReconcileError::Unknown => Self::plain(Code::ReconcileNotFound),
            ReconcileError::TooFarBack { .. } => Self::new(Code::SinceTooLong, detail),
            ReconcileError::UnderWay => Self::new(Code::TooManyRequests, detail)
                .retry_in(Span::from_secs(UNDER_WAY_REST_SECS)),
            ReconcileError::Unavailable(error) => error.into(),
        }
    }
}
