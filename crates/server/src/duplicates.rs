//! Duplicates: the repeats that were stopped, what came too late, and decisions about what is held.

mod held;

pub(crate) use held::{accept_as_new, accept_as_repeat, dismiss};

use std::cmp::Reverse;

use axum::extract::State;
use jiff::Timestamp;
use semel_api::Code;
use semel_api::types::{Duplicate, DuplicateFilter, HeldDecision, Late};
use semel_model::{FlowName, Key, Right, RunId};
use semel_store::duplicates::{
    self, DecisionView, DuplicatePosition, DuplicateView, ListedDuplicates,
};
use semel_store::listed::PAGE_BYTES_MAX;
use semel_store::object_versions::{self, StaleView};
use semel_store::runs::RunView;

use crate::answer::{Answered, read_json};
use crate::app::App;
use crate::auth::Caller;
use crate::cursor;
use crate::error::ApiError;
use crate::list_memory::ListMemory;
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
    let payloads = shows_payloads(&caller, &filter);
    let memory = ListMemory::take(&app, caller.namespace_id).await?;
    let mut found = FoundPage::new(limit);
    match (&key, filter.run) {
        (Some(key), _) => of_key(&app, &caller, key, from, payloads, &mut found).await?,
        (None, Some(run)) => {
            let of = cell.of(run);
            found.add(duplicates::list_of_run(of, id, run, from, limit, payloads).await?);
        }
        (None, None) => {
            found.add(duplicates::list(cell.every(), id, from, limit, payloads).await?);
        }
    }
    found.retain(|duplicate| filter.run.is_none_or(|run| duplicate.run == run));
    let of = (key.as_ref(), filter.run);
    let stale = object_versions::list_stale(cell.every(), id, of, from, limit, payloads).await?;
    found.add_stale(stale);
    found.answer(&caller, memory)
}

/// Whether payloads are read: those that a token may not see, or nobody asked for, stay in the database.
fn shows_payloads(caller: &Caller, filter: &DuplicateFilter) -> bool {
    !filter.without_payloads && caller.may(Right::Payload)
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
    let payloads = shows_payloads(caller, filter);
    let flow = filter.flow.as_ref().map(FlowName::as_str);
    let memory = ListMemory::take(app, caller.namespace_id).await?;
    let mut found = FoundPage::new(limit);
    found.add(duplicates::list_held(cell, id, flow, before, limit, payloads).await?);
    found.answer(caller, memory)
}

/// One item of several lists.
pub(crate) enum Found {
    /// A repeat that was stopped.
    Duplicate(DuplicateView),
    /// A delivery that came too late.
    Stale(StaleView),
}

impl Found {
    /// How many bytes its payload has.
    pub(crate) fn payload_bytes(&self) -> usize {
        let payload = match self {
            Self::Duplicate(duplicate) => &duplicate.payload,
            Self::Stale(stale) => &stale.payload,
        };
        payload.as_ref().map_or(0, String::len)
    }

    fn last_at(&self) -> Timestamp {
        match self {
            Self::Duplicate(duplicate) => duplicate.last_at,
            Self::Stale(stale) => stale.last_at,
        }
    }

    /// In its wire form.
    pub(crate) fn view(&self) -> Duplicate {
        match self {
            Self::Duplicate(duplicate) => view(duplicate),
            Self::Stale(stale) => view_stale(stale),
        }
    }
}

/// The latest of what several lists have: each has as many as the page, if there are that many and its payloads leave
/// room. Pages go by minutes; what stands on one is in order of time.
struct FoundPage {
    items: Vec<(DuplicatePosition, Found)>,
    limit: u16,
    /// The latest place at which a list was cut, or all of them together: behind it, not all is known.
    cut_at: Option<DuplicatePosition>,
}

impl FoundPage {
    fn new(limit: u16) -> Self {
        Self {
            items: Vec::new(),
            limit,
            cut_at: None,
        }
    }

    fn add(&mut self, (found, is_cut): ListedDuplicates) {
        let found = found.into_iter();
        let found = found.map(|it| (it.position(), Found::Duplicate(it)));
        self.join(found.collect(), is_cut);
    }

    fn add_stale(&mut self, (found, is_cut): (Vec<StaleView>, bool)) {
        let found = found.into_iter();
        let found = found.map(|it| (it.position(), Found::Stale(it)));
        self.join(found.collect(), is_cut);
    }

    /// Takes another list in, which ended because of its payloads where it is cut; and keeps the latest items, as far as
    /// their payloads leave room, and one at least.
    fn join(&mut self, found: Vec<(DuplicatePosition, Found)>, is_cut: bool) {
        self.cut_behind(
            found
                .last()
                .filter(|_| is_cut)
                .map(|(place, _)| place.clone()),
        );
        self.items.extend(found);
        self.items.sort_by(|(one, _), (other, _)| other.cmp(one));
        let mut bytes = 0;
        let too_much = self.items.iter().position(|(_, found)| {
            bytes += found.payload_bytes();
            bytes > PAGE_BYTES_MAX
        });
        if let Some(too_much) = too_much.map(|place| place.max(1))
            && too_much < self.items.len()
        {
            self.items.truncate(too_much);
            self.cut_behind(self.items.last().map(|(place, _)| place.clone()));
        }
    }

    /// Notes that not all is known behind a place. The latest such place counts.
    fn cut_behind(&mut self, place: Option<DuplicatePosition>) {
        self.cut_at = self.cut_at.take().max(place);
    }

    fn retain(&mut self, is_wanted: impl Fn(&DuplicateView) -> bool) {
        self.items.retain(|(_, found)| match found {
            Found::Duplicate(duplicate) => is_wanted(duplicate),
            Found::Stale(_) => true,
        });
    }

    /// The items of the page, in order of time, and where the next one begins.
    fn settle(mut self) -> (Vec<Found>, Option<DuplicatePosition>) {
        let limit = usize::from(self.limit);
        if let Some(cut_at) = &self.cut_at {
            self.items.retain(|(place, _)| place >= cut_at);
        }
        self.items.truncate(limit);
        let next = match self.items.len() == limit {
            true => self.items.last().map(|(last, _)| last.clone()),
            false => self.cut_at,
        };
        self.items
            .sort_by_key(|(_, found)| Reverse(found.last_at()));
        let items = self.items.into_iter().map(|(_, found)| found);
        (items.collect(), next)
    }

    fn answer(self, caller: &Caller, memory: ListMemory) -> Answered {
        let (items, next) = self.settle();
        let next = next.as_ref().map(cursor::write_duplicate);
        payloads::page(caller, memory, &items, Found::view, next)
    }
}

fn view_stale(stale: &StaleView) -> Duplicate {
    let key = Key::new(stale.key.clone()).ok();
    Duplicate {
        duplicate: None,
        run: RunId::derive(stale.newest_claim, 0),
        flow: Some(stale.flow.clone()),
        key: key.map(|key| key.text()),
        stopped_by: "order".to_owned(),
        verdict: "stale".to_owned(),
        count: stale.count,
        first_at: stale.first_at,
        last_at: stale.last_at,
        fingerprint: Some(stale.fingerprint.to_string()),
        payload: read_json(stale.payload.as_deref()),
        order: Some(Late {
            object: stale.object.clone(),
            version: stale.version.clone(),
            newest: stale.newest.clone(),
        }),
        came_as: None,
        decision: None,
    }
}

/// The repeats that were stopped at runs, and the deliveries that came too late of a key, where one is
/// given; latest first. Says whether others are left because of their payloads.
pub(crate) async fn of_runs(
    app: &App,
    caller: &Caller,
    late: Option<&Key>,
    of: &[RunView],
    limit: u16,
) -> Result<(Vec<Found>, bool), ApiError> {
    // A list of its own for each run: all of them are shown, as far as there is room.
    let mut found = FoundPage::new(u16::MAX);
    let (id, payloads) = (caller.namespace_id, caller.may(Right::Payload));
    for run in of {
        let cell = app.cell().of(run.id);
        found.add(duplicates::list_of_run(cell, id, run.id, None, limit, payloads).await?);
    }
    if let Some(key) = late {
        let (cell, of) = (app.cell().every(), (Some(key), None));
        let stale = object_versions::list_stale(cell, id, of, None, limit, payloads).await?;
        found.add_stale(stale);
    }
    let (items, next) = found.settle();
    Ok((items, next.is_some()))
}

/// The repeats of a key, by way of its runs.
async fn of_key(
    app: &App,
    caller: &Caller,
    key: &Key,
    before: Option<&DuplicatePosition>,
    payloads: bool,
    found: &mut FoundPage,
) -> Result<(), ApiError> {
    let limit = found.limit;
    for run in runs::find_by_key(app, caller, None, key).await? {
        let (cell, id) = (app.cell().of(run.id), caller.namespace_id);
        found.add(duplicates::list_of_run(cell, id, run.id, before, limit, payloads).await?);
    }
    Ok(())
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
