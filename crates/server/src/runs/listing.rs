//! Lists of runs: by state, flow, release and time, by the error that they failed with, by key, by parent,
//! by the identity that a destination gave, and by their own.
//!
//! Each way to ask is carried by an index. What is known only after the read, such as the error, is looked for
//! in a bounded number of runs; where that ends, the page says how to go on.

use axum::extract::State;
use jiff::Timestamp;
use semel_api::Code;
use semel_api::types::{RunFilter, RunStatus};
use semel_model::RunId;
use semel_model::run::RunState;
use semel_store::runs::{self, RunView};
use semel_store::{child_runs, effects};
use serde_json::Value;

use super::{find_by_key, get, view};
use crate::answer::{Answered, read_json};
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::list_memory::ListMemory;
use crate::query::{PAGE_MAX, Params, page_size, read_key};
use crate::{cursor, payloads};

/// How many pages of runs one request reads to find runs of a rare state.
const READS_MAX: usize = 2;

/// How many failed runs one read looks at for an error.
const LOOKED_AT: u16 = 200;

/// `GET /v1/runs`.
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(filter): Params<RunFilter>,
) -> Answered {
    let invalid = |detail: &str| Err(ApiError::new(Code::QueryInvalid, detail));
    if filter.release.is_some() && filter.flow.is_none() {
        return invalid("`release` is a number of a flow's release: say `flow` as well");
    }
    let memory = ListMemory::take(&app, caller.namespace_id).await?;
    let named = (&filter.key, filter.parent, &filter.external_id, &filter.ids);
    let page = match named {
        (None, None, None, None) => page(&app, &caller, &filter).await?,
        (Some(key), None, None, None) => of_key(&app, &caller, key, &filter).await?,
        (None, Some(parent), None, None) => of_parent(&app, &caller, parent, &filter).await?,
        (None, None, Some(id), None) => of_external_id(&app, &caller, id, &filter).await?,
        (None, None, None, Some(ids)) => of_ids(&app, &caller, ids, &filter).await?,
        (_, _, _, _) => {
            return invalid(
                "`key`, `parent`, `external_id` and `ids` each name runs by themselves: keep one of them",
            );
        }
    };
    payloads::page(&caller, memory, &page.runs, view, page.next)
}

/// Runs of a page, whose results are text until they are written.
struct RunPage {
    runs: Vec<RunView>,
    next: Option<String>,
}

/// Reads on until the page is full: *running* and the like, and the error, are known only after the read.
async fn page(app: &App, caller: &Caller, filter: &RunFilter) -> Result<RunPage, ApiError> {
    let limit = page_size(filter.limit);
    // Only what has failed has an error that is looked for by default.
    let state = match (filter.state, &filter.error) {
        (None, Some(_)) => Some(RunState::Failed),
        (state, _) => state.map(RunStatus::state),
    };
    let read = match &filter.error {
        Some(_) => limit.max(LOOKED_AT),
        None => limit,
    };
    let mut wanted = runs::RunFilter {
        flow: filter.flow.as_ref().map(ToString::to_string),
        release: filter.release,
        state,
        before: cursor::read_before(filter.cursor.as_deref(), filter.until)?,
    };
    let mut runs = Vec::new();
    for _ in 0..READS_MAX {
        let found = runs::list(app.cell().every(), caller.namespace_id, &wanted, read).await?;
        for run in found.items {
            if is_before(filter, run.accepted_at) {
                return Ok(RunPage { runs, next: None });
            }
            if !fits(&run, filter) {
                continue;
            }
            let next = cursor::write(run.accepted_at, run.id.as_uuid());
            runs.push(run);
            if runs.len() == usize::from(limit) {
                let next = Some(next);
                return Ok(RunPage { runs, next });
            }
        }
        wanted.before = found.next.filter(|(at, _)| !is_before(filter, *at));
        if wanted.before.is_none() {
            break;
        }
    }
    Ok(RunPage {
        runs,
        next: wanted.before.map(cursor::write_position),
    })
}

/// Whether a time lies before all that is asked for.
fn is_before(filter: &RunFilter, at: Timestamp) -> bool {
    filter.since.is_some_and(|since| at < since)
}

/// Whether a run is one of those that are asked for.
fn fits(run: &RunView, filter: &RunFilter) -> bool {
    let stands = match filter.state {
        None => true,
        Some(RunStatus::Active) => run.state == RunState::Active,
        Some(status) => run.state_word() == status.as_str(),
    };
    let failed_so = filter.error.as_deref().is_none_or(|code| {
        let fault = read_json(run.fault.as_deref());
        fault.is_some_and(|fault: Value| fault["code"] == code)
    });
    let is_of_release = filter.release.is_none_or(|number| run.release == number);
    let is_in_time = !is_before(filter, run.accepted_at)
        && filter.until.is_none_or(|until| run.accepted_at < until);
    let is_of_flow = filter
        .flow
        .as_ref()
        .is_none_or(|flow| run.flow == flow.as_str());
    stands && failed_so && is_of_release && is_in_time && is_of_flow
}

async fn of_key(
    app: &App,
    caller: &Caller,
    key: &str,
    filter: &RunFilter,
) -> Result<RunPage, ApiError> {
    let key = read_key(key.as_bytes())?;
    let found = find_by_key(app, caller, filter.flow.as_ref(), &key).await?;
    let ids: Vec<RunId> = found.iter().map(|run| run.id).collect();
    of_named(app, caller, &ids, filter).await
}

/// The items and branches of a run that have begun, in their order.
async fn of_parent(
    app: &App,
    caller: &Caller,
    parent: RunId,
    filter: &RunFilter,
) -> Result<RunPage, ApiError> {
    let parent = get(app, caller, parent).await?;
    let after = cursor::read_child(filter.cursor.as_deref())?;
    let wanted = child_runs::ChildRunFilter {
        step: None,
        state: None,
        after: after.as_ref().map(|(step, index)| (step.as_str(), *index)),
    };
    let limit = page_size(filter.limit);
    let cell = app.cell().of(parent.id);
    let (found, more) = child_runs::list_page(cell, parent.id, wanted, limit).await?;
    let ids: Vec<RunId> = found.iter().map(|child| child.run).collect();
    let (runs, cut_at) = in_order(app, caller, &ids, filter).await?;
    let last = match cut_at {
        Some(place) => found.get(place),
        None => found.last().filter(|_| more),
    };
    Ok(RunPage {
        runs,
        next: last.map(|last| cursor::write_child(&last.step, last.index)),
    })
}

/// The runs whose effects the destination knows by an identity.
async fn of_external_id(
    app: &App,
    caller: &Caller,
    external_id: &str,
    filter: &RunFilter,
) -> Result<RunPage, ApiError> {
    let before = cursor::read(filter.cursor.as_deref())?;
    let (every, limit) = (app.cell().every(), page_size(filter.limit));
    let namespace_id = caller.namespace_id;
    let found =
        effects::list_of_external_id(every, namespace_id, external_id, None, before, limit).await?;
    let mut ids: Vec<RunId> = Vec::new();
    for effect in &found.items {
        if !ids.contains(&effect.run) {
            ids.push(effect.run);
        }
    }
    let (runs, cut_at) = in_order(app, caller, &ids, filter).await?;
    // A run with several such effects is on the next page again, if another of them stands behind this one.
    let next = match cut_at.and_then(|place| ids.get(place)) {
        Some(last) => {
            let of_last = found.items.iter().find(|effect| effect.run == *last);
            of_last.map(|effect| cursor::write(effect.intended_at, effect.id.as_uuid()))
        }
        None => found.next.map(cursor::write_position),
    };
    Ok(RunPage { runs, next })
}

/// Runs by their identities. One of another namespace is left out, as one is that is not there.
async fn of_ids(
    app: &App,
    caller: &Caller,
    ids: &str,
    filter: &RunFilter,
) -> Result<RunPage, ApiError> {
    let wrong = || {
        let detail =
            format!("`ids` are identities such as run_…, with commas between, {PAGE_MAX} at most");
        ApiError::new(Code::QueryInvalid, detail)
    };
    let ids: Result<Vec<RunId>, _> = ids.split(',').map(str::parse).collect();
    let ids = ids.map_err(|_| wrong())?;
    if ids.len() > usize::from(PAGE_MAX) {
        return Err(wrong());
    }
    of_named(app, caller, &ids, filter).await
}

/// Runs of which all names are known, from behind the one that the page before ended with.
async fn of_named(
    app: &App,
    caller: &Caller,
    ids: &[RunId],
    filter: &RunFilter,
) -> Result<RunPage, ApiError> {
    let last = cursor::read(filter.cursor.as_deref())?.map(|(_, id)| RunId::from_uuid(id));
    let begin = last.and_then(|last| ids.iter().position(|id| *id == last));
    let ids = &ids[begin.map_or(0, |place| place + 1)..];
    let (runs, cut_at) = in_order(app, caller, ids, filter).await?;
    // Of such a cursor only the identity is read: the first time that there is stands for any.
    let next = cut_at.and_then(|place| ids.get(place));
    let next = next.map(|last| cursor::write(Timestamp::UNIX_EPOCH, last.as_uuid()));
    Ok(RunPage { runs, next })
}

/// Those of some runs that are asked for, in the order of their names; and the place of the last one that was read, where
/// others are left for the next page because of their results.
async fn in_order(
    app: &App,
    caller: &Caller,
    ids: &[RunId],
    filter: &RunFilter,
) -> Result<(Vec<RunView>, Option<usize>), ApiError> {
    let (mut found, is_cut) =
        runs::list_named(app.cell().every(), caller.namespace_id, ids).await?;
    let last = found.last().filter(|_| is_cut).map(|run| run.id);
    let cut_at = last.and_then(|last| ids.iter().position(|id| *id == last));
    found.retain(|run| fits(run, filter));
    Ok((found, cut_at))
}
