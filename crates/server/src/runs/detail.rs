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
use crate::answer::Answered;
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::heavy;
use crate::query::{Named, PAGE_MAX};
use crate::{effects as effect_routes, pauses, payloads, waits as wait_routes};

/// A journal of more bytes is not read on the threads that serve requests.
const JOURNAL_BYTES_HEAVY: usize = 64 << 10;

/// `GET /v1/runs/{run}`.
pub(crate) async fn show(State(app): State<App>, caller: Caller, run: Named) -> Answered {
    let id = run.read(Code::RunNotFound)?;
    let found = runs::find(app.cell().of(id), caller.namespace_id, id).await?;
    let Some(run) = found else {
        let archived = archived::find(&app, &caller, id).await?;
        let archived = archived.ok_or_else(|| ApiError::plain(Code::RunNotFound))?;
        return payloads::ok(&caller, archived);
    };
    let with_payloads = caller.may(Right::Payload);
    let (mut detail, events) = read(app.cell(), caller.namespace_id, &run, with_payloads).await?;
    if !run.state.is_ended() {
        detail.gate = find_gate(&app, &run, &events).await?;
        detail.paused = pauses::of_run(&app, run.id).await?;
        detail.waits_for_key = behind_key::find(&app, &run, &events).await?;
    }
    payloads::ok(&caller, detail)
}

/// A run that has ended, with all of its payloads.
pub(super) async fn of_ended(
    cell: &Cell,
    namespace_id: i32,
    run: &RunView,
) -> Result<RunDetail, ApiError> {
    let (detail, _) = read(cell, namespace_id, run, true).await?;
    Ok(detail)
}

/// A run with everything but what it waits for, and the events of its journal.
async fn read(
    cell: &Cell,
    namespace_id: i32,
    run: &RunView,
    with_payloads: bool,
) -> Result<(RunDetail, Vec<Event>), ApiError> {
    let cell = cell.of(run.id);
    let effects = effects::list_of_run(cell, namespace_id, run.partition_date, run.id).await?;
    let lines = journal::read(cell, run.partition_date, run.id).await?;
    let history = History::read(lines, with_payloads).await?;
    let events = &history.events;
    let waits = match history.tells_of_waits() {
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
    let detail = RunDetail {
        run: view(run),
        gate: None,
        paused: None,
        waits_for_key: None,
        effects: in_order(effects, events).iter().map(shown).collect(),
        waits: waits.iter().map(wait_routes::view).collect(),
        child_runs: match history.tells_of_child_runs() {
            true => progress(cell, run.id).await?,
            false => Vec::new(),
        },
        acts: acts.into_iter().map(effect_routes::view_act).collect(),
        journal: history.lines,
    };
    Ok((detail, history.events))
}

/// A run's journal, read once: it may have very many rows.
struct History {
    /// The events that this server knows.
    events: Vec<Event>,
    /// The rows in their wire form.
    lines: Vec<JournalLine>,
    /// Whether the journal tells everything: it was not deleted, and all of it is known.
    is_whole: bool,
}

impl History {
    /// A long journal is read off the threads that serve requests.
    async fn read(rows: Vec<JournalRow>, with_payloads: bool) -> Result<Self, ApiError> {
        let bytes: usize = rows.iter().map(|row| row.events.len()).sum();
        match bytes > JOURNAL_BYTES_HEAVY {
            true => heavy::compute(move || Self::read_rows(&rows, with_payloads)).await,
            false => Ok(Self::read_rows(&rows, with_payloads)),
        }
    }

    fn read_rows(rows: &[JournalRow], with_payloads: bool) -> Self {
        let mut history = Self {
            events: Vec::new(),
            lines: Vec::with_capacity(rows.len()),
            is_whole: !rows.is_empty(),
        };
        for row in rows {
            let values = row.values();
            history.is_whole &= !values.is_empty();
            let mut shown = Vec::new();
            for value in values {
                let known = Event::deserialize(&value).ok();
                history.is_whole &= known.is_some();
                if with_payloads {
                    shown.push(view_event(known.as_ref(), value));
                }
                history.events.extend(known);
            }
            history.lines.push(JournalLine {
                seq: row.seq,
                at: row.at,
                events: shown,
            });
        }
        history
    }

    fn tells_of_child_runs(&self) -> bool {
        let tells = |event: &Event| matches!(event, Event::FanOpened { .. });
        !self.is_whole || self.events.iter().any(tells)
    }

    /// A replay goes on with the waits of the run before.
    fn tells_of_waits(&self) -> bool {
        let tells = |event: &Event| {
            matches!(
                event,
                Event::WaitOpened { .. } | Event::Inherited { .. } | Event::Reused { .. }
            )
        };
        !self.is_whole || self.events.iter().any(tells)
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
