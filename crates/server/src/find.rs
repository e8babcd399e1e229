//! `semel find`: everything that is known under one key, in one answer.

use std::collections::HashSet;

use axum::extract::State;
use jiff::civil::Date;
use semel_api::types::{FoundItem, FoundKey};
use semel_model::{EffectId, Key, RunId};
use semel_store::approvals::{self as approval_store, ApprovalView};
use semel_store::child_runs as child_store;
use semel_store::effects::{self as effect_store, EffectView};
use semel_store::key_presence::{self, KeyPresence};
use semel_store::kv;
use semel_store::listed::{Listed, PAGE_BYTES_MAX};
use semel_store::named_effects::{self, NamedEffectView};
use semel_store::runs::{self as run_store, RunView};
use semel_store::waits::{self as wait_store, WaitView};
use serde_json::Value;

use crate::answer::Answered;
use crate::app::App;
use crate::auth::Caller;
use crate::duplicates::Found;
use crate::error::ApiError;
use crate::links::without_links;
use crate::list_memory::ListMemory;
use crate::payloads::HasPayload as _;
use crate::query::{OfKey, Params};
use crate::{
    approvals, child_run_view, duplicates, effects, entries, key_story, key_verdict, once,
    payloads, runs, waits,
};

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
    let memory = ListMemory::take(&app, caller.namespace_id).await?;
    let mut room = PayloadRoom::new();
    let (mut items, is_cut) = match there.items {
        true => child_store::find_by_key(cell.every(), id, &of.key, LIST_MAX).await?,
        false => (Vec::new(), false),
    };
    room.cut_if(is_cut, "items");
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
    let names = find_named(&app, &caller, &key, there.named_effects).await?;
    let known = find_by_identifier(&app, &caller, (&of.key, there.external_ids)).await?;
    let told = key_story::of_found(&own, &of_items, &known);
    let story = key_story::read(&app, id, &told, &names).await;
    let shown: Vec<RunId> = own.iter().map(|run| run.id).collect();
    let shown = &shown[..shown.len().min(usize::from(LIST_MAX))];
    let (mut shown, is_cut) = run_store::list_named(cell.every(), id, shown).await?;
    room.cut_if(is_cut, "runs");
    room.keep("runs", &mut shown, |run| length(run.result.as_deref()));
    room.keep("items", &mut items, |(_, item)| {
        length(item.result.as_deref())
    });
    let waits = find_waits(&app, &caller, &values, &looked_into, there, &mut room).await?;
    let asked = match there.approvals {
        true => find_approvals(&app, &caller, &looked_into, &mut room).await?,
        false => Vec::new(),
    };
    let repeats = find_duplicates(&app, &caller, &key, &looked_into, there, &mut room).await?;
    let effects = find_effects(&app, &caller, known, &looked_into).await?;
    let entry = match there.entry {
        true => find_entry(&app, &caller, &of.key).await?,
        false => None,
    };
    // From here on nothing is waited for: payloads become values, and are written.
    let mut found = FoundKey {
        key: key.text(),
        verdict: match told.is_empty() && names.is_empty() {
            // Of what is not known, nothing is said.
            true => Vec::new(),
            false => key_verdict::sentences(&story),
        },
        story,
        runs: shown.iter().map(runs::view).collect(),
        items: items
            .iter()
            .filter_map(|(parent, item)| {
                let item = child_run_view::view(item)?;
                let parent = *parent;
                Some(FoundItem { parent, item })
            })
            .collect(),
        effects,
        named_effects: names
            .iter()
            .map(|effect| payloads::of_once(&caller, once::view(effect)))
            .collect(),
        waits: waits.iter().map(waits::view).collect(),
        approvals: asked.iter().map(approvals::view).collect(),
        duplicates: repeats.iter().map(Found::view).collect(),
        entry,
        cut: Vec::new(),
    };
    found.cut = cut(&mut found, own.len() + of_items.len() > looked_into.len());
    found.cut.extend(room.cut.into_iter().map(str::to_owned));
    found.cut.sort();
    found.cut.dedup();
    found.limit(&caller);
    let text = serde_json::to_string(&found).map(without_links);
    let text = text.map_err(|_| ApiError::internal("an answer that is not JSON"))?;
    Ok(memory.answer(text))
}

/// How many bytes of payloads one answer still has room for, and the lists that had more.
struct PayloadRoom {
    left: usize,
    cut: HashSet<&'static str>,
}

impl PayloadRoom {
    fn new() -> Self {
        Self {
            left: PAGE_BYTES_MAX,
            cut: HashSet::new(),
        }
    }

    /// Notes that a list had more than was read.
    fn cut_if(&mut self, is_cut: bool, list: &'static str) {
        if is_cut {
            self.cut.insert(list);
        }
    }

    /// Keeps the items whose payloads there is room for. The first of all is there however large it is.
    fn keep<T>(&mut self, list: &'static str, items: &mut Vec<T>, bytes: impl Fn(&T) -> usize) {
        let is_first = self.left == PAGE_BYTES_MAX;
        let fitting = items.iter().enumerate().position(|(place, item)| {
            let bytes = bytes(item);
            let fits = bytes <= self.left || is_first && place == 0;
            if fits {
                self.left = self.left.saturating_sub(bytes);
            }
            !fits
        });
        if let Some(fitting) = fitting {
            items.truncate(fitting);
            self.cut.insert(list);
        }
    }
}

fn length(text: Option<&str>) -> usize {
    text.map_or(0, str::len)
}

/// The approvals of runs.
async fn find_approvals(
    app: &App,
    caller: &Caller,
    of: &[RunView],
    room: &mut PayloadRoom,
) -> Result<Vec<ApprovalView>, ApiError> {
    let id = caller.namespace_id;
    let mut found = Vec::new();
    for run in of {
        let cell = app.cell().of(run.id);
        let asked = approval_store::list_of_run(cell, id, run.id, true, None, LIST_MAX).await?;
        let mut asked = without_rest(asked, "approvals", room);
        room.keep("approvals", &mut asked, |it| it.shown.len());
        found.extend(asked);
    }
    Ok(found)
}

/// The items of a list of which the rest is not read.
fn without_rest<T>(listed: Listed<T>, name: &'static str, room: &mut PayloadRoom) -> Vec<T> {
    room.cut_if(listed.next.is_some(), name);
    listed.items
}

/// The effects that a destination knows by this identifier, and the one whose key it was sent.
async fn find_by_identifier(
    app: &App,
    caller: &Caller,
    (key, is_external): (&str, bool),
) -> Result<Vec<EffectView>, ApiError> {
    let (cell, id) = (app.cell(), caller.namespace_id);
    let mut found = Vec::new();
    if is_external {
        let known = effect_store::list_of_external_id(cell.every(), id, key, None, None, LIST_MAX);
        found.extend(known.await?.items);
    }
    if let Ok(effect) = key.parse::<EffectId>() {
        found.extend(effect_store::find(cell.of(effect), id, effect).await?);
    }
    Ok(found)
}

/// The effects of runs, beside those that are known.
async fn find_effects(
    app: &App,
    caller: &Caller,
    known: Vec<EffectView>,
    of: &[RunView],
) -> Result<Vec<semel_api::types::Effect>, ApiError> {
    let (cell, id) = (app.cell(), caller.namespace_id);
    let mut found = Vec::new();
    if !of.is_empty() {
        let of: Vec<(Date, RunId)> = of.iter().map(|run| (run.partition_date, run.id)).collect();
        found.extend(effect_store::list_of_runs(cell.every(), id, &of, EFFECTS_EACH).await?);
    }
    found.extend(known);
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
) -> Result<Vec<NamedEffectView>, ApiError> {
    let (cell, id) = (app.cell(), caller.namespace_id);
    let mut found = match are_there {
        true => named_effects::list_of_key(cell.every(), id, key, LIST_MAX).await?,
        false => Vec::new(),
    };
    if let Ok(sent) = key.text().parse::<EffectId>() {
        found.extend(named_effects::find_by_key(cell.of(sent), id, sent).await?);
    }
    Ok(found)
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
    room: &mut PayloadRoom,
) -> Result<Vec<WaitView>, ApiError> {
    let (cell, id) = (app.cell(), caller.namespace_id);
    let mut found = Vec::new();
    let of = if there.waits { of } else { &[] };
    for run in of {
        let of_run = wait_store::list_of_run(cell.of(run.id), id, run.id, true, None, LIST_MAX);
        let mut of_run = without_rest(of_run.await?, "waits", room);
        room.keep("waits", &mut of_run, |wait| length(wait.payload.as_deref()));
        found.extend(of_run);
    }
    if there.event_waits {
        let of_events = wait_store::list_of_event_values(cell.every(), id, values, LIST_MAX);
        found.extend(of_events.await?);
    }
    let mut seen = HashSet::new();
    found.retain(|wait: &WaitView| seen.insert(wait.id));
    Ok(found)
}

/// The repeats that were stopped at runs, and the deliveries of the key that came too late.
async fn find_duplicates(
    app: &App,
    caller: &Caller,
    key: &Key,
    of: &[RunView],
    there: KeyPresence,
    room: &mut PayloadRoom,
) -> Result<Vec<Found>, ApiError> {
    let of = if there.duplicates { of } else { &[] };
    let late = there.stale_deliveries.then_some(key);
    let (mut found, is_cut) = duplicates::of_runs(app, caller, late, of, LIST_MAX).await?;
    room.cut_if(is_cut, "duplicates");
    room.keep("duplicates", &mut found, Found::payload_bytes);
    Ok(found)
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
