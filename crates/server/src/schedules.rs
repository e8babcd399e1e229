//! Schedules: list, show, their instants and ticks; pause, resume, fire by hand.

use std::collections::BTreeSet;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use semel_api::Code;
use semel_api::types::{
    FireSchedule, FiredSchedule, Instant, InstantFilter, Page, PauseSchedule, PausedSchedule,
    Schedule, ScheduleDetail, Tick, TickFilter, TickVerdict,
};
use semel_engine::{FireError, Moment, PauseError, ScheduleView};
use semel_flow::{Missed, Recurrence};
use semel_model::FlowName;
use semel_store::schedules::{self, TickView};

use crate::answer::{self, Answered};
use crate::app::App;
use crate::auth::Caller;
use crate::body::Payload;
use crate::commands::{self, Command, KEY_HEADER, Reply};
use crate::error::ApiError;
use crate::query::{Named, Params, page_size, read_key};

/// The most instants that were fired before their time.
const FIRED_AHEAD_MAX: i64 = 500;

/// How many of the next instants, and of the latest ticks, are shown with a schedule.
const INSTANTS_SHOWN: usize = 5;
const TICKS_SHOWN: u16 = 50;

/// `GET /v1/schedules`.
pub(crate) async fn list(State(app): State<App>, caller: Caller) -> Answered {
    let found = app.engine.list_schedules(caller.namespace_id).await?;
    answer::ok(&Page {
        items: found.into_iter().filter_map(view).collect(),
        next: None,
    })
}

/// `GET /v1/schedules/{flow}`: with its next instants and its latest ticks.
pub(crate) async fn show(State(app): State<App>, caller: Caller, flow: Named) -> Answered {
    let (found, recurrence) = get(&app, &caller, &flow).await?;
    let known = latest_ticks(&app, &found).await?;
    let after = app.engine.now().max(found.decided_to);
    let instants = match found.paused_at {
        Some(_) => Vec::new(),
        None => undecided(&recurrence, &known, after, INSTANTS_SHOWN),
    };
    let shown = usize::from(TICKS_SHOWN);
    let ticks = tick_page(&known[..known.len().min(shown)], TICKS_SHOWN);
    let schedule = view(found).ok_or_else(|| ApiError::plain(Code::ScheduleNotFound))?;
    answer::ok(&ScheduleDetail {
        schedule,
        instants: instants
            .iter()
            .map(|at| view_instant(&recurrence, *at))
            .collect(),
        ticks: ticks.items,
        cursor: ticks.next,
    })
}

/// `GET /v1/schedules/{flow}/ticks`.
pub(crate) async fn list_ticks(
    State(app): State<App>,
    caller: Caller,
    flow: Named,
    Params(filter): Params<TickFilter>,
) -> Answered {
    let (found, _) = get(&app, &caller, &flow).await?;
    let limit = page_size(filter.limit);
    let cell = app.cell();
    let ticks =
        schedules::list_ticks(cell.of(found.id), found.id, filter.cursor, i64::from(limit)).await?;
    answer::ok(&tick_page(&ticks, limit))
}

fn tick_page(ticks: &[TickView], limit: u16) -> Page<Tick> {
    let last = ticks.last().filter(|_| ticks.len() == usize::from(limit));
    Page {
        items: ticks.iter().map(view_tick).collect(),
        next: last.map(|last| last.tick.nominal.to_string()),
    }
}

/// `GET /v1/schedules/{flow}/instants`.
pub(crate) async fn list_instants(
    State(app): State<App>,
    caller: Caller,
    flow: Named,
    Params(filter): Params<InstantFilter>,
) -> Answered {
    let (found, recurrence) = get(&app, &caller, &flow).await?;
    let after = match filter.after {
        Some(after) => after.max(found.decided_to),
        None => schedules::look(app.cell()).await?.0.max(found.decided_to),
    };
    let limit = usize::from(page_size(filter.limit));
    let known = latest_ticks(&app, &found).await?;
    let instants = undecided(&recurrence, &known, after, limit);
    let next = instants.last().filter(|_| instants.len() == limit);
    answer::ok(&Page {
        next: next.map(Timestamp::to_string),
        items: instants
            .iter()
            .map(|at| view_instant(&recurrence, *at))
            .collect(),
    })
}

fn view_instant(recurrence: &Recurrence, at: Timestamp) -> Instant {
    Instant {
        at,
        local: recurrence.on_the_wall(at),
    }
}

async fn latest_ticks(app: &App, found: &ScheduleView) -> Result<Vec<TickView>, ApiError> {
    let cell = app.cell().of(found.id);
    Ok(schedules::list_ticks(cell, found.id, None, FIRED_AHEAD_MAX).await?)
}

/// The next instants that are not decided: some may have been fired by hand before their time.
fn undecided(
    recurrence: &Recurrence,
    known: &[TickView],
    after: Timestamp,
    limit: usize,
) -> Vec<Timestamp> {
    let ahead = known.iter().map(|view| view.tick.nominal);
    let ahead: BTreeSet<Timestamp> = ahead.filter(|at| *at > after).collect();
    let undecided = recurrence.after(after).filter(|at| !ahead.contains(at));
    undecided.take(limit).collect()
}

/// `POST /v1/schedules/{flow}/pause`.
pub(crate) async fn pause(
    State(app): State<App>,
    caller: Caller,
    flow: Named,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    set_paused(app, caller, &flow, &headers, payload, true).await
}

/// `POST /v1/schedules/{flow}/resume`.
pub(crate) async fn resume(
    State(app): State<App>,
    caller: Caller,
    flow: Named,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    set_paused(app, caller, &flow, &headers, payload, false).await
}

async fn set_paused(
    app: App,
    caller: Caller,
    flow: &Named,
    headers: &HeaderMap,
    payload: Payload,
    paused: bool,
) -> Answered {
    let flow: FlowName = flow.read(Code::ScheduleNotFound)?;
    let (ask, body): (PauseSchedule, _) = payload.read()?;
    let command = Command {
        verb: match paused {
            true => "schedule pause",
            false => "schedule resume",
        },
        subject: flow.as_str(),
        body: &body,
        headers,
    };
    let (engine, asking, flow) = (app.engine.clone(), caller.clone(), flow.clone());
    commands::once(app, &caller, command, async move {
        let actor = asking.actor();
        let (by, reason) = (asking.acting(&actor), ask.reason.as_deref());
        let namespace = &asking.namespace;
        let changed = match paused {
            true => engine.pause_schedule(by, namespace, &flow, reason).await?,
            false => engine.resume_schedule(by, namespace, &flow, reason).await?,
        };
        tracing::info!(%flow, actor, changed, paused, "schedule paused or resumed");
        let done = PausedSchedule {
            flow,
            paused,
            changed,
        };
        Reply::new(StatusCode::OK, &done)
    })
    .await
}

/// `POST /v1/schedules/{flow}/fire`.
pub(crate) async fn fire(
    State(app): State<App>,
    caller: Caller,
    flow: Named,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let flow: FlowName = flow.read(Code::ScheduleNotFound)?;
    let (ask, body): (FireSchedule, _) = payload.read()?;
    let moment = match (ask.at, headers.get(KEY_HEADER)) {
        (Some(at), _) => Moment::At(at),
        (None, Some(key)) => Moment::Now(read_key(key.as_bytes())?.text()),
        (None, None) => return Err(ApiError::plain(Code::KeyMissing)),
    };
    let command = Command {
        verb: "schedule fire",
        subject: flow.as_str(),
        body: &body,
        headers: &headers,
    };
    let (engine, asking, flow) = (app.engine.clone(), caller.clone(), flow.clone());
    commands::once(app, &caller, command, async move {
        let actor = asking.actor();
        let by = asking.acting(&actor);
        let fired = engine
            .fire_schedule(by, &asking.namespace, &flow, &moment)
            .await?;
        tracing::info!(run.id = %fired.run, %flow, actor, "schedule fired by hand");
        let status = match fired.replayed {
            true => StatusCode::OK,
            false => StatusCode::CREATED,
        };
        let done = FiredSchedule {
            flow,
            nominal: fired.nominal,
            run: fired.run,
            key: fired.key.text(),
            replayed: fired.replayed,
        };
        Ok(Reply::new(status, &done)?.replayed_if(fired.replayed))
    })
    .await
}

async fn get(
    app: &App,
    caller: &Caller,
    flow: &Named,
) -> Result<(ScheduleView, Recurrence), ApiError> {
    let flow: FlowName = flow.read(Code::ScheduleNotFound)?;
    let found = app.engine.find_schedule(caller.namespace_id, &flow).await?;
    let found = found.ok_or_else(|| ApiError::plain(Code::ScheduleNotFound))?;
    let declared = found.release.flow.trigger.schedule.as_ref();
    match declared.map(|declared| declared.recurrence.clone()) {
        Some(recurrence) => Ok((found, recurrence)),
        None => Err(ApiError::plain(Code::ScheduleNotFound)),
    }
}

fn view(found: ScheduleView) -> Option<Schedule> {
    let declared = found.release.flow.trigger.schedule.as_ref()?;
    Some(Schedule {
        flow: found.release.flow.name.clone(),
        release: found.release.number,
        recurrence: declared.recurrence.to_string(),
        sentence: declared.recurrence.describe(),
        zone: declared.recurrence.zone().to_owned(),
        missed: declared.missed.as_str().to_owned(),
        most: (declared.missed == Missed::All).then_some(declared.most),
        next: found.next,
        paused_at: found.paused_at,
        paused_by: found.paused_by,
        latest: found.latest.as_ref().map(view_tick),
    })
}

fn view_tick(view: &TickView) -> Tick {
    let TickView { tick, decided_at } = view;
    let (verdict, reason, run, fired_by) = match &tick.verdict {
        schedules::TickVerdict::Fired { run, by } => {
            (TickVerdict::Fired, None, Some(*run), by.clone())
        }
        schedules::TickVerdict::Skipped { reason } => {
            (TickVerdict::Skipped, Some(reason.clone()), None, None)
        }
    };
    Tick {
        nominal: tick.nominal,
        last: (tick.instants > 1).then_some(tick.last),
        instants: tick.instants,
        verdict,
        reason,
        run,
        fired_by,
        decided_at: *decided_at,
    }
}

impl From<PauseError> for ApiError {
    fn from(error: PauseError) -> Self {
        match error {
            PauseError::Unknown => Self::plain(Code::ScheduleNotFound),
            PauseError::NotNow => Self::unavailable(),
            PauseError::Reason(error) => error.into(),
            PauseError::Unavailable(error) => error.into(),
        }
    }
}

impl From<FireError> for ApiError {
    fn from(error: FireError) -> Self {
        match error {
            FireError::Unknown => Self::plain(Code::ScheduleNotFound),
            FireError::NotNamed { at, next } => {
                let next = next.map(|next| format!("; after it comes {next}"));
                let next = next.unwrap_or_default();
                let detail = format!("the schedule does not name {at}{next}");
                Self::new(Code::InstantNotScheduled, detail)
            }
            FireError::Key(detail) => Self::new(Code::KeyInvalid, detail),
            FireError::Intake(error) => error.into(),
            FireError::Unavailable(error) => error.into(),
        }
    }
}
