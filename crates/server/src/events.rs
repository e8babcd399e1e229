//! Events that runs emitted: list, and show who received one.

use std::collections::{BTreeMap, HashMap};

use axum::extract::State;
use semel_api::Code;
use semel_api::types::{EmittedEvent, EventDelivery, EventDetail, EventFilter, EventTaker, Page};
use semel_model::{EffectId, RunId};
use semel_store::effects::{self, EffectView};
use semel_store::runs::RunView;
use semel_store::webhook_deliveries::{self, SubscriptionDelivery};
use semel_store::{claims, runs};

use crate::answer::{self, Answered};
use crate::app::App;
use crate::auth::Caller;
use crate::cursor;
use crate::effects::source;
use crate::error::ApiError;
use crate::query::{Named, Params, page_size, read_key};
use crate::subscriptions::read_state;

/// The kind of the steps that emit events.
pub(crate) const EMIT: &str = "emit";

/// `GET /v1/events`.
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(filter): Params<EventFilter>,
) -> Answered {
    let limit = page_size(filter.limit);
    let before = cursor::read(filter.cursor.as_deref())?;
    let (cell, namespace_id) = (app.cell().every(), caller.namespace_id);
    let found = effects::list_of_kind(cell, namespace_id, EMIT, before, limit).await?;
    answer::ok(&Page {
        items: described(&app, &caller, &found.items).await?,
        next: found.next.map(cursor::write_position),
    })
}

/// `GET /v1/events/{event}`.
pub(crate) async fn show(State(app): State<App>, caller: Caller, event: Named) -> Answered {
    let unknown = || ApiError::plain(Code::EffectNotFound);
    let id: EffectId = event.read(Code::EffectNotFound)?;
    let found = effects::find(app.cell().of(id), caller.namespace_id, id).await?;
    let found = found.filter(|it| it.kind == EMIT).ok_or_else(unknown)?;
    let event = described(&app, &caller, &[found]).await?.pop();
    let event = event.ok_or_else(unknown)?;
    let deliveries =
        webhook_deliveries::list_of_event(app.cell().of(id), caller.namespace_id, id).await?;
    let deliveries: Result<Vec<EventDelivery>, ApiError> =
        deliveries.into_iter().map(view_delivery).collect();
    let mut detail = EventDetail {
        flows: takers(&app, &caller, &event).await?,
        event,
        deliveries: deliveries?,
    };
    // What a webhook said may be what it was sent.
    if !caller.may(semel_model::Right::Payload) {
        detail.deliveries.iter_mut().for_each(|it| it.note = None);
    }
    answer::ok(&detail)
}

/// Events with what they are called, and with the flow and the key of the run that emitted each.
async fn described(
    app: &App,
    caller: &Caller,
    found: &[EffectView],
) -> Result<Vec<EmittedEvent>, ApiError> {
    let ids: Vec<RunId> = found.iter().map(|effect| effect.run).collect();
    let every = app.cell().every();
    let known = runs::find_many(every, caller.namespace_id, &ids).await?;
    let known: BTreeMap<RunId, &RunView> = known.iter().map(|run| (run.id, run)).collect();
    let releases = runs::list_releases(app.cell().every(), caller.namespace_id, &ids).await?;
    let releases: HashMap<RunId, i32> = releases.into_iter().collect();
    let mut events = Vec::with_capacity(found.len());
    for effect in found {
        let event = match releases.get(&effect.run) {
            Some(release) => app.engine.find_event(*release, &effect.step).await?,
            None => None,
        };
        events.push(EmittedEvent {
            id: effect.id,
            event,
            run: effect.run,
            source: known.get(&effect.run).map(|run| source(run)),
            step: effect.step.clone(),
            state: effect.state,
            emitted_at: effect.intended_at,
        });
    }
    Ok(events)
}

/// The flows that take an event now, each with the run that it started.
async fn takers(
    app: &App,
    caller: &Caller,
    event: &EmittedEvent,
) -> Result<Vec<EventTaker>, ApiError> {
    let Some(name) = &event.event else {
        return Ok(Vec::new());
    };
    let key = read_key(event.id.to_string().as_bytes())?;
    let mut takers = Vec::new();
    for (flow, has_own_key) in app.engine.list_event_takers(caller.namespace_id, name) {
        let run = match has_own_key {
            true => None,
            false => {
                let every = app.cell().every();
                let claim = claims::find_by_key(every, &caller.namespace, &flow, &key).await?;
                claim.map(|claim| claim.run)
            }
        };
        takers.push(EventTaker {
            flow: flow.to_string(),
            has_own_key,
            run,
        });
    }
    Ok(takers)
}

fn view_delivery(row: SubscriptionDelivery) -> Result<EventDelivery, ApiError> {
    let state = read_state(&row.state)?;
    Ok(EventDelivery {
        subscription: row.subscription,
        state,
        attempt: row.attempt,
        due_at: row.settled_at.is_none().then_some(row.due_at),
        settled_at: row.settled_at,
        note: row.note,
    })
}
