//! Duplicates: the repeats that were stopped, what came too late, and decisions about what is held.

mod held;

pub(crate) use held::{accept_as_new, accept_as_repeat, dismiss};

use axum::extract::State;
use semel_api::Code;
use semel_api::types::{Duplicate, DuplicateFilter, HeldDecision, Late, Page};
use semel_model::{FlowName, Key, RunId};
use semel_store::duplicates::{self, DecisionView, DuplicatePosition, DuplicateView};
use semel_store::object_versions::{self, StaleView};
use semel_store::runs::RunView;

use crate::answer::{Answered, read_json};
use crate::app::App;
use crate::auth::Caller;
use crate::cursor;
use crate::error::ApiError;
use crate::payloads;
use crate::query::{Params, page_size, read_key};
use crate::runs;

/// `GET /v1/duplicates`.
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(filter): Params<DuplicateFilter>,
) -> Answered {
    // A repeat that this server has just answered is on the list.
    app.engine.write_down_repeats().await;
    let limit = page_size(filter.limit);
    let before = cursor::read_duplicate(filter.cursor.as_deref())?;
    if filter.held {
        return list_held(&app, &caller, &filter, before.as_ref(), limit).await;
    }
    if filter.flow.is_some() {
        let detail = "`flow` belongs to `held`; duplicates are asked for by `run` or by `key`";
        return Err(ApiError::new(Code::QueryInvalid, detail));
    }
    let key = match &filter.key {
        Some(key) => Some(read_key(key.as_bytes())?),
        None => None,
    };
    let (cell, id, from) = (app.cell(), caller.namespace_id, before.as_ref());
    let mut found = match (&key, filter.run) {
        (Some(key), _) => of_key(&app, &caller, key, from, limit).await?,
        (None, Some(run)) => duplicates::list_of_run(cell.of(run), id, run, from, limit).await?,
        (None, None) => {
            let payloads = !filter.without_payloads;
            duplicates::list(cell.every(), id, from, limit, payloads).await?
        }
    };
    found.retain(|duplicate| filter.run.is_none_or(|run| duplicate.run == run));
    let found = found.iter().map(|it| (it.position(), view(it)));
    let mut items: Vec<(DuplicatePosition, Duplicate)> = found.collect();
    items.extend(list_stale(&app, &caller, (key.as_ref(), filter.run), from, limit).await?);
    payloads::ok(&caller, page(items, limit))
}

/// What is held and not decided.
async fn list_held(
    app: &App,
    caller: &Caller,
    filter: &DuplicateFilter,
    before: Option<&DuplicatePosition>,
    limit: u16,
) -> Answered {
    if filter.run.is_some() || filter.key.is_some() {
        let detail = "`held` is asked for by `flow`, not by `run` or `key`";
        return Err(ApiError::new(Code::QueryInvalid, detail));
    }
    let (cell, id) = (app.cell().every(), caller.namespace_id);
    let payloads = !filter.without_payloads;
    let flow = filter.flow.as_ref().map(FlowName::as_str);
    let found = duplicates::list_held(cell, id, flow, before, limit, payloads).await?;
    let items = found.iter().map(|it| (it.position(), view(it)));
    payloads::ok(caller, page(items.collect(), limit))
}

/// The latest of what several lists have: each has as many as the page, if there are that many. Pages
/// go by minutes; what stands on one is in order of time.
fn page(mut found: Vec<(DuplicatePosition, Duplicate)>, limit: u16) -> Page<Duplicate> {
    found.sort_by(|(one, _), (other, _)| other.cmp(one));
    found.truncate(usize::from(limit));
    let last = found.last().filter(|_| found.len() == usize::from(limit));
    let next = last.map(|(last, _)| cursor::write_duplicate(last));
    found.sort_by_key(|(_, item)| std::cmp::Reverse(item.last_at));
    let items = found.into_iter().map(|(_, item)| item).collect();
    Page { items, next }
}

/// Deliveries that came too late: of a key, or behind a run, where one is given.
async fn list_stale(
    app: &App,
    caller: &Caller,
    (key, run): (Option<&Key>, Option<RunId>),
    before: Option<&DuplicatePosition>,
    limit: u16,
) -> Result<Vec<(DuplicatePosition, Duplicate)>, ApiError> {
    let (cell, id) = (app.cell(), caller.namespace_id);
    let of = (key, run);
    let stale = object_versions::list_stale(cell.every(), id, of, before, limit).await?;
    let stale = stale.into_iter().map(|it| (it.position(), view_stale(it)));
    Ok(stale.collect())
}

fn view_stale(stale: StaleView) -> Duplicate {
    let key = Key::new(stale.key).ok();
    Duplicate {
        duplicate: None,
        run: RunId::derive(stale.newest_claim, 0),
        flow: Some(stale.flow),
        key: key.map(|key| key.text()),
        stopped_by: "order".to_owned(),
        verdict: "stale".to_owned(),
        count: stale.count,
        first_at: stale.first_at,
        last_at: stale.last_at,
        fingerprint: Some(stale.fingerprint.to_string()),
        payload: read_json(stale.payload.as_deref()),
        order: Some(Late {
            object: stale.object,
            version: stale.version,
            newest: stale.newest,
        }),
        came_as: None,
        decision: None,
    }
}

/// The repeats that were stopped at runs, and the deliveries that came too late of a key, where one is
/// given; latest first.
pub(crate) async fn of_runs(
    app: &App,
    caller: &Caller,
    late: Option<&Key>,
    of: &[RunView],
    limit: u16,
) -> Result<Vec<Duplicate>, ApiError> {
    let mut items = Vec::new();
    for run in of {
        let (cell, id) = (app.cell().of(run.id), caller.namespace_id);
        let of_run = duplicates::list_of_run(cell, id, run.id, None, limit).await?;
        items.extend(of_run.iter().map(view));
    }
    if let Some(key) = late {
        let stale = list_stale(app, caller, (Some(key), None), None, limit).await?;
        items.extend(stale.into_iter().map(|(_, item)| item));
    }
    items.sort_by_key(|duplicate| std::cmp::Reverse(duplicate.last_at));
    Ok(items)
}

/// The repeats of a key, by way of its runs.
async fn of_key(
    app: &App,
    caller: &Caller,
    key: &Key,
    before: Option<&DuplicatePosition>,
    limit: u16,
) -> Result<Vec<DuplicateView>, ApiError> {
    let mut found = Vec::new();
    for run in runs::find_by_key(app, caller, None, key).await? {
        let (cell, id) = (app.cell().of(run.id), caller.namespace_id);
        let of_run = duplicates::list_of_run(cell, id, run.id, before, limit).await?;
        found.extend(of_run);
    }
    Ok(found)
}

fn view(duplicate: &DuplicateView) -> Duplicate {
    let key = duplicate.key.clone().and_then(|bytes| Key::new(bytes).ok());
    Duplicate {
        duplicate: Some(duplicate.id()),
        run: duplicate.run,
        flow: duplicate.flow.clone(),
        key: key.map(|key| key.text()),
        stopped_by: duplicate.stopped_by.clone(),
        verdict: duplicate.verdict.clone(),
        count: duplicate.count,
        first_at: duplicate.first_at,
        last_at: duplicate.last_at,
        fingerprint: Some(duplicate.payload_fingerprint.to_string()),
        payload: read_json(duplicate.payload.as_deref()),
        order: None,
        came_as: duplicate.came_as.clone(),
        decision: duplicate.decision.as_ref().map(view_decision),
    }
}

fn view_decision(made: &DecisionView) -> HeldDecision {
    HeldDecision {
        decision: made.kind.as_str().to_owned(),
        key: made.key.as_ref().map(Key::text),
        at: made.at,
        by: made.by.clone(),
        run: made.run,
    }
}
