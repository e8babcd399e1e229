//! Lists of effects: by state, flow, step and time, by run, by key, and by the identity that a destination gave.
//!
//! Time and state are carried by the ledger itself. Flow and step are looked for in a bounded number of effects;
//! where that ends, the page says how to go on.

use std::collections::HashMap;

use axum::extract::State;
use semel_api::Code;
use semel_api::types::{Effect, EffectFilter, Page};
use semel_model::RunId;
use semel_store::effects::{self, EffectView};
use semel_store::runs::{self, RunView};

use super::sources::{self, fits, is_before};
use super::view;
use crate::answer::Answered;
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::query::{PAGE_MAX, Params, page_size};
use crate::{cursor, payloads};

/// `GET /v1/effects`.
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(filter): Params<EffectFilter>,
) -> Answered {
    let EffectFilter {
        run,
        external_id,
        flow,
        key,
        ..
    } = &filter;
    let page = match (run, external_id, flow, key) {
        (None, None, _, None) => page(&app, &caller, &filter).await?,
        (Some(run), None, None, None) => of_run(&app, &caller, *run, &filter).await?,
        (None, Some(id), None, None) => sources::of_external_id(&app, &caller, id, &filter).await?,
        (None, None, Some(flow), Some(key)) => {
            sources::of_key(&app, &caller, flow, key, &filter).await?
        }
        (_, _, _, _) => {
            let detail = "`run`, `external_id`, and `flow` with `key` each name effects by themselves: keep one of them";
            return Err(ApiError::new(Code::QueryInvalid, detail));
        }
    };
    payloads::ok(&caller, page)
}

async fn of_run(
    app: &App,
    caller: &Caller,
    run: RunId,
    filter: &EffectFilter,
) -> Result<Page<Effect>, ApiError> {
    let run = runs::find(app.cell().of(run), caller.namespace_id, run)
        .await?
        .ok_or_else(|| ApiError::plain(Code::RunNotFound))?;
    let (cell, namespace_id) = (app.cell().of(run.id), caller.namespace_id);
    let found = effects::list_of_run(cell, namespace_id, run.partition_date, run.id).await?;
    let wanted = |effect: &&EffectView| {
        let in_state = filter.state.is_none_or(|state| effect.state == state);
        in_state && fits(effect, filter)
    };
    Ok(Page {
        items: found.iter().filter(wanted).map(view).collect(),
        next: None,
    })
}

async fn page(app: &App, caller: &Caller, filter: &EffectFilter) -> Result<Page<Effect>, ApiError> {
    let limit = page_size(filter.limit);
    let is_narrowed = filter.flow.is_some() || filter.step.is_some();
    let read = if is_narrowed { PAGE_MAX } else { limit };
    let (cell, namespace_id) = (app.cell().every(), caller.namespace_id);
    let found = effects::list(
        cell,
        namespace_id,
        filter.state,
        cursor::read_before(filter.cursor.as_deref(), filter.until)?,
        read,
    )
    .await?;
    let known = match is_narrowed {
        true => {
            let ids: Vec<RunId> = found.items.iter().map(|effect| effect.run).collect();
            runs::find_many(app.cell().every(), namespace_id, &ids).await?
        }
        false => Vec::new(),
    };
    let known: HashMap<RunId, &RunView> = known.iter().map(|run| (run.id, run)).collect();
    let mut items = Vec::new();
    for effect in &found.items {
        if is_before(filter, effect) {
            return Ok(Page { items, next: None });
        }
        let run = known.get(&effect.run);
        let of_flow = filter.flow.as_ref();
        let of_flow = of_flow.is_none_or(|flow| run.is_some_and(|run| run.flow == flow.as_str()));
        if !of_flow || !fits(effect, filter) {
            continue;
        }
        items.push(Effect {
            source: run.map(|run| sources::source(run)),
            ..view(effect)
        });
        if items.len() == usize::from(limit) && is_narrowed {
            let next = cursor::write(effect.intended_at, effect.id.as_uuid());
            return Ok(Page {
                items,
                next: Some(next),
            });
        }
    }
    let next = found.next.filter(|(at, _)| {
        let since = filter.since;
        since.is_none_or(|since| *at >= since)
    });
    Ok(Page {
        items,
        next: next.map(cursor::write_position),
    })
}
