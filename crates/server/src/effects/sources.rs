//! The map between a source's keys and a destination's identities, both ways.

use std::collections::BTreeMap;

use semel_api::Code;
use semel_api::types::{Effect, EffectFilter, Page, Source};
use semel_model::{FlowName, RunId};
use semel_store::effects::EffectView;
use semel_store::runs::RunView;
use semel_store::{claims, effects, runs};

use super::view;
use crate::app::App;
use crate::auth::Caller;
use crate::cursor;
use crate::error::ApiError;
use crate::query::{page_size, read_key};

/// The effects with this external id, with the flow and the key that they came from.
pub(super) async fn of_external_id(
    app: &App,
    caller: &Caller,
    external_id: &str,
    filter: &EffectFilter,
) -> Result<Page<Effect>, ApiError> {
    let (cell, namespace_id) = (app.cell(), caller.namespace_id);
    let limit = page_size(filter.limit);
    let before = cursor::read(filter.cursor.as_deref())?;
    let (every, state) = (cell.every(), filter.state);
    let found =
        effects::list_of_external_id(every, namespace_id, external_id, state, before, limit)
            .await?;
    let ids: Vec<RunId> = found.items.iter().map(|effect| effect.run).collect();
    let known = runs::find_many(cell.every(), namespace_id, &ids).await?;
    let sources: BTreeMap<RunId, Source> = known.iter().map(|run| (run.id, source(run))).collect();
    let wanted = found.items.iter().filter(|effect| fits(effect, filter));
    let items = wanted.map(|effect| Effect {
        source: sources.get(&effect.run).cloned(),
        ..view(effect)
    });
    Ok(Page {
        items: items.collect(),
        next: found.next.map(cursor::write_position),
    })
}

/// The effects of a flow's key, with the destination's identities.
pub(super) async fn of_key(
    app: &App,
    caller: &Caller,
    flow: &FlowName,
    key: &str,
    filter: &EffectFilter,
) -> Result<Page<Effect>, ApiError> {
    let (cell, namespace_id) = (app.cell(), caller.namespace_id);
    let key = read_key(key.as_bytes())?;
    let claim = claims::find_by_key(cell.every(), &caller.namespace, flow, &key).await?;
    let claim = claim.ok_or_else(|| ApiError::plain(Code::KeyNotFound))?;
    let run = runs::find(cell.of(claim.run), namespace_id, claim.run).await?;
    let run = run.ok_or_else(|| ApiError::plain(Code::RunNotFound))?;
    let found =
        effects::list_of_run(cell.of(run.id), namespace_id, run.partition_date, run.id).await?;
    let wanted = found
        .iter()
        .filter(|effect| filter.state.is_none_or(|state| effect.state == state))
        .filter(|effect| fits(effect, filter));
    let items = wanted.map(|effect| Effect {
        source: Some(source(&run)),
        ..view(effect)
    });
    Ok(Page {
        items: items.collect(),
        next: None,
    })
}

pub(crate) fn source(run: &RunView) -> Source {
    Source {
        flow: run.flow.clone(),
        key: run.key.text(),
        release: Some(run.release),
    }
}

/// Whether an effect lies before all that is asked for.
pub(super) fn is_before(filter: &EffectFilter, effect: &EffectView) -> bool {
    filter.since.is_some_and(|since| effect.intended_at < since)
}

/// Whether an effect is of the step and of the time that are asked for.
pub(super) fn fits(effect: &EffectView, filter: &EffectFilter) -> bool {
    let of_step = filter.step.as_ref().is_none_or(|step| effect.step == *step);
    let in_time =
        !is_before(filter, effect) && filter.until.is_none_or(|until| effect.intended_at < until);
    of_step && in_time
}
