//! `semel find`: everything that is known under one key, in one answer.

use std::collections::HashSet;

use axum::extract::State;
use jiff::civil::Date;
use semel_api::types::{Duplicate, FoundItem, FoundKey};
use semel_model::{EffectId, Key, RunId};
use semel_store::effects::{self as effect_store, EffectView};
use semel_store::key_presence::{self, KeyPresence};
use semel_store::runs::{self as run_store, RunView};
use semel_store::{approvals as approval_store, child_runs as child_store};
use semel_store::{kv, named_effects, waits as wait_store};
use serde_json::Value;

use crate::answer::Answered;
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::query::{OfKey, Params};
use crate::{approvals, child_run_view, duplicates, effects, entries, once, payloads, runs, waits};

/// How many of each list there are: enough to see where to look closer.
const LIST_MAX: u16 = 50;

/// Of how many runs and items the effects, waits, approvals and duplicates are looked up.
const RUNS_MAX: usize = 20;

/// How many effects of each run are looked up.
const EFFECTS_EACH: u16 = 200;

/// `GET /v1/find?key=`.
pub(crate) async fn find(
    State(app): State<App>,
    caller: Caller,
    Params(of): Params<OfKey>,
) -> Answered {
    let key = of.read()?;
    // A repeat that this server has just answered is among the duplicates.
    app.engine.write_down_repeats().await;
    let own = runs::find_by_key(&app, &caller, None, &key).await?;
    let (cell, id) = (app.cell(), caller.namespace_id);
    let values = event_values(&of.key);
    let ids: Vec<RunId> = own.iter().take(RUNS_MAX).map(|run| run.id).collect();
    let mut there = key_presence::look(cell.every(), id, (&key, &of.key), &values, &ids).await?;
    let items = match there.items {
        true => child_store::find_by_key(cell.every(), id, &of.key, LIST_MAX).await?,
        false => Vec::new(),
    };
    let of_items: Vec<RunId> = items.iter().map(|(_, item)| item.run).collect();
    let of_items = match of_items.is_empty() {
        true => Vec::new(),
        false => run_store::find_many(cell.every(), id, &of_items).await?,
    };
    if !of_items.is_empty() {
        // The look was at the key's own runs.
        (there.waits, there.approvals, there.duplicates) = (true, true, true);
    }
    let looked_into: Vec<RunView> = own
        .iter()
        .chain(&of_items)
        .take(RUNS_MAX)
        .cloned()
        .collect();
    let mut found = FoundKey {
        key: key.text(),
        runs: own.iter().map(runs::view).collect(),
        items: items
            .iter()
            .filter_map(|(parent, item)| {
                let item = child_run_view::view(item)?;
                let parent = *parent;
                Some(FoundItem { parent, item })
            })
            .collect(),
        effects: Vec::new(),
        named_effects: find_named(&app, &caller, &key, there.named_effects).await?,
        waits: find_waits(&app, &caller, &values, &looked_into, there).await?,
        approvals: Vec::new(),
        duplicates: find_duplicates(&app, &caller, &key, &looked_into, there).await?,
        entry: match there.entry {
            true => find_entry(&app, &caller, &of.key).await?,
            false => None,
        },
        cut: Vec::new(),
    };
    if there.approvals {
        for run in &looked_into {
            let cell = app.cell().of(run.id);
            let asked = approval_store::list_of_run(cell, id, run.id, true, None, LIST_MAX).await?;
            let asked = asked.items.iter().map(approvals::view);
            found.approvals.extend(asked);
        }
    }
    let external = there.external_ids;
    found.effects = find_effects(&app, &caller, (&of.key, external), &looked_into).await?;
    found.cut = cut(&mut found, own.len() + of_items.len() > looked_into.len());
    payloads::ok(&caller, found)
}

/// The effects of runs, and those that a destination knows by this identifier.
async fn find_effects(
    app: &App,
    caller: &Caller,
    (key, external): (&str, bool),
    of: &[RunView],
) -> Result<Vec<semel_api::types::Effect>, ApiError> {
    let (cell, id) = (app.cell(), caller.namespace_id);
    let mut found = Vec::new();
    if !of.is_empty() {
        let of: Vec<(Date, RunId)> = of.iter().map(|run| (run.partition_date, run.id)).collect();
        found.extend(effect_store::list_of_runs(cell.every(), id, &of, EFFECTS_EACH).await?);
    }
    if external {
        let known = effect_store::list_of_external_id(cell.every(), id, key, None, None, LIST_MAX);
        found.extend(known.await?.items);
    }
    if let Ok(effect) = key.parse::<EffectId>() {
        found.extend(effect_store::find(cell.of(effect), id, effect).await?);
    }
    let mut seen = HashSet::new();
    found.retain(|effect: &EffectView| seen.insert((effect.id, effect.run)));
    found.sort_by_key(|effect| std::cmp::Reverse(effect.intended_at));
    Ok(found.iter().map(effects::view).collect())
}

/// The named effects whose key it is, and the one whose key a destination was sent.
async fn find_named(
    app: &App,
    caller: &Caller,
    key: &Key,
    are_there: bool,
) -> Result<Vec<semel_api::types::OnceEffect>, ApiError> {
    let (cell, id) = (app.cell(), caller.namespace_id);
    let mut found = match are_there {
        true => named_effects::list_of_key(cell.every(), id, key, LIST_MAX).await?,
        false => Vec::new(),
    };
    if let Ok(sent) = key.text().parse::<EffectId>() {
        found.extend(named_effects::find_by_key(cell.of(sent), id, sent).await?);
    }
    let shown = found.iter().map(once::view);
    Ok(shown
        .map(|effect| payloads::of_once(caller, effect))
        .collect())
}

/// What a wait for an event may have this key as: a text, or a number.
fn event_values(key: &str) -> Vec<Value> {
    let mut values = vec![Value::from(key)];
    values.extend(serde_json::from_str(key).ok().filter(Value::is_number));
    values
}

/// The waits of runs, and the open ones for an event with one of these values.
async fn find_waits(
    app: &App,
    caller: &Caller,
    values: &[Value],
    of: &[RunView],
    there: KeyPresence,
) -> Result<Vec<semel_api::types::Wait>, ApiError> {
    let (cell, id) = (app.cell(), caller.namespace_id);
    let mut found = Vec::new();
    let of = if there.waits { of } else { &[] };
    for run in of {
        let of_run = wait_store::list_of_run(cell.of(run.id), id, run.id, true, None, LIST_MAX);
        found.extend(of_run.await?.items);
    }
    if there.event_waits {
        let of_events = wait_store::list_of_event_values(cell.every(), id, values, LIST_MAX);
        found.extend(of_events.await?);
    }
    let mut seen = HashSet::new();
    found.retain(|wait| seen.insert(wait.id));
    Ok(found.iter().map(waits::view).collect())
}

/// The repeats that were stopped at runs, and the deliveries of the key that came too late.
async fn find_duplicates(
    app: &App,
    caller: &Caller,
    key: &Key,
    of: &[RunView],
    there: KeyPresence,
) -> Result<Vec<Duplicate>, ApiError> {
    let of = if there.duplicates { of } else { &[] };
    let late = there.stale_deliveries.then_some(key);
    duplicates::of_runs(app, caller, late, of, LIST_MAX).await
}

async fn find_entry(
    app: &App,
    caller: &Caller,
    name: &str,
) -> Result<Option<semel_api::types::Entry>, ApiError> {
    let id = caller.namespace_id;
    let cell = app.cell().of(kv::slot(id, name));
    Ok(kv::find(cell, id, name).await?.map(entries::view))
}

/// Shortens the lists that are too long, and names them; and those that more runs would make longer.
fn cut(found: &mut FoundKey, runs_left_out: bool) -> Vec<String> {
    let max = usize::from(LIST_MAX);
    let mut cut = HashSet::new();
    let mut shorten = |name: &'static str, len: usize| {
        if len >= max {
            cut.insert(name);
        }
    };
    shorten("runs", found.runs.len());
    shorten("items", found.items.len());
    shorten("effects", found.effects.len());
    shorten("named_effects", found.named_effects.len());
    shorten("waits", found.waits.len());
    shorten("approvals", found.approvals.len());
    shorten("duplicates", found.duplicates.len());
    found.runs.truncate(max);
    found.effects.truncate(max);
    found.waits.truncate(max);
    found.approvals.truncate(max);
    found.duplicates.truncate(max);
    if runs_left_out {
        cut.extend(["effects", "waits", "approvals", "duplicates"]);
    }
    let mut cut: Vec<String> = cut.into_iter().map(str::to_owned).collect();
    cut.sort();
    cut
}
