//! One run with everything that belongs to it.

use std::collections::HashMap;

use axum::extract::State;
use semel_api::Code;
use semel_api::types::{AtGate, ChildRunProgress, Effect, JournalEvent, JournalLine, RunDetail};
use semel_engine::event::describe;
use semel_model::event::GateWait;
use semel_model::gate::{GateKind, GatePlace};
use semel_model::{EffectId, Event, Right, RunId};
use semel_store::effects::EffectView;
use semel_store::journal::{self, JournalRow};
use semel_store::runs::{self, RunView};
use semel_store::{Cell, ReadError, SlotCell, audit, child_runs, effects, gates, waits};
use serde::Deserialize as _;
use serde_json::Value;

use super::{archived, behind_key, view};
use crate::answer::{self, Answered};
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::heavy;
use crate::journal_memory::room_for_journal;
use crate::links::without_links;
use crate::payloads::HasPayload as _;
use crate::query::{Named, PAGE_MAX};
use crate::{effects as effect_routes, key_story, pauses, waits as wait_routes};

/// A journal of more bytes is not read on the threads that serve requests.
const JOURNAL_BYTES_HEAVY: usize = 64 << 10;

/// The end of a run as JSON before the lines of its journal are put in.
const NO_LINES: &str = "\"journal\":[]}";

/// The same up to those lines.
const LINES: &str = "\"journal\":[";

/// `GET /v1/runs/{run}`.
pub(crate) async fn show(State(app): State<App>, caller: Caller, run: Named) -> Answered {
    let id = run.read(Code::RunNotFound)?;
    let found = runs::find(app.cell().of(id), caller.namespace_id, id).await?;
    let Some(run) = found else {
        let archived = archived::find(&app, &caller, id).await?;
        let (mut detail, memory) = archived.ok_or_else(|| ApiError::plain(Code::RunNotFound))?;
        detail.limit(&caller);
        let text = serde_json::to_string(&detail).map(without_links);
        let text = text.map_err(|_| ApiError::internal("an answer that is not JSON"))?;
        return Ok(answer::with_memory(text, memory));
    };
    let with_payloads = caller.may(Right::Payload);
    let memory = room_for_journal(&app, run.partition_date, run.id).await?;
    let rows = journal::read(app.cell().of(id), run.partition_date, run.id).await?;
    let namespace_id = caller.namespace_id;
    let (outline, lines) = Outline::read_texts(namespace_id, rows, with_payloads).await?;
    let mut detail = assemble(app.cell(), namespace_id, &run, &outline).await?;
    if !run.state.is_ended() {
        let events = &outline.events;
        detail.gate = find_gate(&app, &run, events).await?;
        detail.paused = pauses::of_run(&app, run.id).await?;
        detail.waits_for_key = behind_key::find(&app, &run, events).await?;
    }
    let story = key_story::of_run(&app, caller.namespace_id, &detail).await;
    detail.under_key = Some(story);
    detail.limit(&caller);
    Ok(answer::with_memory(with_lines(&detail, lines)?, memory))
}

/// A run as JSON, with the lines of its journal: they are its last field, and there is none before they are put in.
fn with_lines(detail: &RunDetail, lines: Vec<String>) -> Result<String, ApiError> {
    let bare = serde_json::to_string(detail).map(without_links);
    let bare = bare.map_err(|_| ApiError::internal("an answer that is not JSON"))?;
    let Some(head) = bare.strip_suffix(NO_LINES) else {
        return Err(ApiError::internal(
            "a run whose journal is not its last field",
        ));
    };
    let length: usize = lines.iter().map(|line| line.len() + 1).sum();
    let mut text = String::with_capacity(head.len() + length + NO_LINES.len());
    text.push_str(head);
    text.push_str(LINES);
    for (place, line) in lines.into_iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        text.push_str(&line);
    }
    text.push_str("]}");
    Ok(text)
}

/// A run that has ended, with all of its payloads.
pub(super) async fn of_ended(
    cell: &Cell,
    namespace_id: i32,
    run: &RunView,
) -> Result<RunDetail, ApiError> {
    let rows = journal::read(cell.of(run.id), run.partition_date, run.id).await?;
    let (outline, lines) = Outline::read_lines(namespace_id, rows).await?;
    let mut detail = assemble(cell, namespace_id, run, &outline).await?;
    detail.journal = lines;
    Ok(detail)
}

/// A run with everything but what it waits for and the lines of its journal.
async fn assemble(
    cell: &Cell,
    namespace_id: i32,
    run: &RunView,
    outline: &Outline,
) -> Result<RunDetail, ApiError> {
    let cell = cell.of(run.id);
    let effects = effects::list_of_run(cell, namespace_id, run.partition_date, run.id).await?;
    let events = &outline.events;
    let waits = match outline.tells_of_waits() {
        true => {
            waits::list_of_run(cell, namespace_id, run.id, true, None, PAGE_MAX)
                .await?
                .items
        }
        false => Vec::new(),
    };
    let acts = audit::list_of_run(cell, namespace_id, run.id, PAGE_MAX).await?;
    let keys = effect_routes::keys_sent(events);
    let shown = |effect: &EffectView| Effect {
        key_sent: keys.get(&effect.id).copied(),
        ..effect_routes::view(effect)
    };
    Ok(RunDetail {
        run: view(run),
        gate: None,
        paused: None,
        waits_for_key: None,
        effects: in_order(effects, events).iter().map(shown).collect(),
        waits: waits.iter().map(wait_routes::view).collect(),
        child_runs: match outline.tells_of_child_runs() {
            true => progress(cell, run.id).await?,
            false => Vec::new(),
        },
        acts: acts.into_iter().map(effect_routes::view_act).collect(),
        under_key: None,
        journal: Vec::new(),
    })
}

/// What a journal says of the rest of its run. Nothing of what was sent or answered is kept, so that it is small
/// however large the journal is.
struct Outline {
    /// The events that are looked at again, of those that this server knows.
    events: Vec<Event>,
    /// Whether the journal tells everything: it was not deleted, and all of it is known.
    is_whole: bool,
    opens_waits: bool,
    opens_fans: bool,
}

impl Outline {
    fn of(rows: &[JournalRow]) -> Self {
        Self {
            events: Vec::new(),
            is_whole: !rows.is_empty(),
            opens_waits: false,
            opens_fans: false,
        }
    }

    /// Reads a journal into lines of JSON. Each row is dropped once it is read: only one is there as values.
    async fn read_texts(
        namespace_id: i32,
        rows: Vec<JournalRow>,
        with_payloads: bool,
    ) -> Result<(Self, Vec<String>), ApiError> {
        let read = read_rows(namespace_id, rows, move |outline, row| {
            let line = outline.read_row(row, with_payloads);
            serde_json::to_string(&line).map(without_links)
        });
        let (outline, lines) = read.await?;
        let lines: serde_json::Result<Vec<String>> = lines.into_iter().collect();
        let lines = lines.map_err(|_| ApiError::internal("a journal that is not JSON"))?;
        Ok((outline, lines))
    }

    /// Reads a journal into lines as values.
    async fn read_lines(
        namespace_id: i32,
        rows: Vec<JournalRow>,
    ) -> Result<(Self, Vec<JournalLine>), ApiError> {
        read_rows(namespace_id, rows, |outline, row| {
            outline.read_row(row, true)
        })
        .await
    }

    /// Adds what a row says, and gives it in its wire form.
    fn read_row(&mut self, row: &JournalRow, with_payloads: bool) -> JournalLine {
        let values = row.values();
        self.is_whole &= !values.is_empty();
        let mut shown = Vec::new();
        for value in values {
            let known = Event::deserialize(&value).ok();
            self.is_whole &= known.is_some();
            if with_payloads {
                shown.push(view_event(known.as_ref(), value));
            }
            if let Some(event) = known {
                self.add(event);
            }
        }
        JournalLine {
            seq: row.seq,
            at: row.at,
            events: shown,
        }
    }

    fn add(&mut self, mut event: Event) {
        self.opens_fans |= matches!(event, Event::FanOpened { .. });
        // A replay goes on with the waits of the run before.
        self.opens_waits |= matches!(
            event,
            Event::WaitOpened { .. } | Event::Inherited { .. } | Event::Reused { .. }
        );
        if let Event::Intended { request, .. } = &mut event {
            *request = None;
        }
        let is_kept = matches!(
            event,
            Event::Intended { .. }
                | Event::Named { .. }
                | Event::GateWaiting(_)
                | Event::Joined { .. }
                | Event::Admitted { .. }
                | Event::Broken { .. }
        );
        if is_kept {
            self.events.push(event);
        }
    }

    fn tells_of_child_runs(&self) -> bool {
        !self.is_whole || self.opens_fans
    }

    fn tells_of_waits(&self) -> bool {
        !self.is_whole || self.opens_waits
    }
}

/// Reads the rows of a journal one after another; a long one off the threads that serve requests.
async fn read_rows<T: Send + 'static>(
    namespace_id: i32,
    rows: Vec<JournalRow>,
    mut read: impl FnMut(&mut Outline, &JournalRow) -> T + Send + 'static,
) -> Result<(Outline, Vec<T>), ApiError> {
    let bytes: usize = rows.iter().map(|row| row.events.len()).sum();
    let mut outline = Outline::of(&rows);
    let work = move || {
        let lines = rows.into_iter().map(|row| read(&mut outline, &row));
        let lines = lines.collect();
        (outline, lines)
    };
    match bytes > JOURNAL_BYTES_HEAVY {
        true => heavy::compute(namespace_id, work).await,
        false => Ok(work()),
    }
}

/// An event with its sentence. One that a newer server wrote is shown by its name.
fn view_event(known: Option<&Event>, event: Value) -> JournalEvent {
    let summary = match known {
        Some(known) => describe(known),
        None => event["event"].as_str().unwrap_or("unknown").to_owned(),
    };
    JournalEvent { summary, event }
}

/// The effects of a run as it came to them: those that commit together have one time.
fn in_order(mut effects: Vec<EffectView>, events: &[Event]) -> Vec<EffectView> {
    let mut places: HashMap<EffectId, usize> = HashMap::new();
    for event in events {
        if let Event::Intended { effect, .. } = event {
            let next = places.len();
            places.entry(*effect).or_insert(next);
        }
    }
    let place = |effect: &EffectView| places.get(&effect.id).copied();
    effects.sort_by_key(|effect| (effect.intended_at, place(effect)));
    effects
}

/// The progress of the child runs of a run, by step.
async fn progress(cell: SlotCell<'_>, run: RunId) -> Result<Vec<ChildRunProgress>, ReadError> {
    let steps = child_runs::steps(cell, run).await?;
    let progress = steps.into_iter().map(|(step, counts)| ChildRunProgress {
        step,
        count: counts.all(),
        pending: counts.pending,
        open: counts.open,
        succeeded: counts.succeeded,
        failed: counts.failed,
        cancelled: counts.cancelled,
    });
    Ok(progress.collect())
}

/// The gate that a run waits at, in its state of now. The journal says which one that is.
async fn find_gate(app: &App, run: &RunView, events: &[Event]) -> Result<Option<AtGate>, ApiError> {
    let mut last = None;
    for event in events {
        if let Event::GateWaiting(GateWait { gate, id, .. }) = event {
            last = Some((*gate, *id));
        } else if let Event::Joined { run } = event {
            return Ok(Some(joining(*run)));
        } else if matches!(event, Event::Admitted { .. }) {
            last = None;
        }
    }
    let Some((gate, id)) = last else {
        return Ok(None);
    };
    let position = gates::find_position(app.cell().of(id), id, run.id).await?;
    Ok(position.map(|position| AtGate {
        gate,
        place: position.place.as_str().to_owned(),
        behind: position.behind,
        ahead: position.ahead,
        until: position.ready_at,
    }))
}

fn joining(run: RunId) -> AtGate {
    AtGate {
        gate: GateKind::Overlap,
        place: GatePlace::Joining.as_str().to_owned(),
        behind: Some(run),
        ahead: 0,
        until: None,
    }
}
