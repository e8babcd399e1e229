//! Schedules: when each is due, what came of its instants; pause, resume and fire.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect};
use semel_api::Code;
use semel_api::types::{
    FireSchedule, FiredSchedule, Instant, Page as Found, PauseSchedule, PausedSchedule, Schedule,
    ScheduleDetail, Tick, TickVerdict,
};
use semel_model::Right;

use super::forms::{self, folded, offer, section};
use super::markup::{self, Markup, assembled};
use super::shell::{Page, Shell, Trouble, next_page, show_as, show_list, status_of};
use super::visit::{Form, Visit};
use super::{empty, words};
use crate::answer::Answered;
use crate::error::ApiError;

/// `GET /console/{namespace}/schedules`.
pub(super) async fn page(visit: Visit) -> Answered {
    let json = "/v1/schedules";
    let found: Found<Schedule> = visit.get(json).await?;
    let row = |one: &Schedule| {
        let flow = one.flow.as_str();
        vec![
            state(one),
            Markup::text(flow).link(&visit.page(&format!("/schedules/{flow}"))),
            Markup::text(&sentence(one)),
            one.next.map(|at| visit.time(at)).unwrap_or_default(),
            one.latest
                .as_ref()
                .map(|tick| Markup::join([verdict(tick), visit.time(tick.nominal)]))
                .unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<Markup>> = found.items.iter().map(row).collect();
    let columns = ["State", "Flow", "When", "Next", "Latest"];
    let body = match rows.is_empty() {
        true => empty::teach(
            "No live release has a schedule. A flow with this trigger has one.",
            "trigger: { schedule: { cron: \"0 8 * * 1-5\", zone: Europe/Berlin } }",
            "docs/schedules.md",
        ),
        false => markup::table("Schedules", &columns, &rows),
    };
    let shell = Shell::new(
        &visit,
        "/schedules",
        "Schedules",
        json,
        "semel schedule list",
    );
    let lead = Markup::fixed("When flows start by themselves. Every instant has at most one run.");
    show_list(shell, lead, vec![body])
}

fn state(schedule: &Schedule) -> Markup {
    match schedule.paused_at {
        Some(_) => markup::other_state("rest", "◔", "paused"),
        None => markup::other_state("good", "●", "on"),
    }
}

fn sentence(schedule: &Schedule) -> String {
    let said = schedule.sentence.trim_end_matches('.');
    match schedule.zone.as_str() {
        "UTC" => format!("{said} (UTC)"),
        zone => format!("{said}, in {zone}"),
    }
}

fn verdict(tick: &Tick) -> Markup {
    match (tick.verdict, tick.reason.as_deref()) {
        (TickVerdict::Fired, _) => markup::other_state("good", "●", "fired"),
        (TickVerdict::Skipped, Some("missed")) => markup::other_state("doubt", "▲", "missed"),
        (TickVerdict::Skipped, reason) => {
            let said = format!("skipped: {}", reason.unwrap_or("no reason"));
            markup::other_state("quiet", "✕", &said)
        }
    }
}

/// `GET /console/{namespace}/schedules/{flow}`.
pub(super) async fn show_one(visit: Visit) -> Answered {
    show_schedule(&visit, StatusCode::OK, None, "").await
}

/// `POST /console/{namespace}/schedules/{flow}/pause`.
pub(super) async fn pause(visit: Visit, form: Form) -> Answered {
    change(visit, form, "pause").await
}

/// `POST /console/{namespace}/schedules/{flow}/resume`.
pub(super) async fn resume(visit: Visit, form: Form) -> Answered {
    change(visit, form, "resume").await
}

async fn change(visit: Visit, form: Form, verb: &str) -> Answered {
    let reason = form.given("reason");
    let address = format!("{}/{verb}", route(&visit));
    let ask = PauseSchedule { reason };
    let done: Result<PausedSchedule, ApiError> = visit.post(&address, &form, &ask).await;
    let page = format!("/schedules/{}", words::encoded(visit.part("flow")));
    finish(&visit, done.map(|_| visit.page(&page)), form.get("reason")).await
}

/// `POST /console/{namespace}/schedules/{flow}/fire`.
pub(super) async fn fire(visit: Visit, form: Form) -> Answered {
    let done = match form.given("at").map(|at| at.parse()).transpose() {
        Ok(at) => {
            let address = format!("{}/fire", route(&visit));
            let ask = FireSchedule { at };
            visit.post::<FiredSchedule>(&address, &form, &ask).await
        }
        Err(_) => Err(ApiError::new(
            Code::BodyInvalid,
            "an instant is a time such as 2026-11-17T08:00:00Z",
        )),
    };
    let to = done.map(|fired| visit.page(&format!("/runs/{}", fired.run)));
    finish(&visit, to, "").await
}

async fn finish(visit: &Visit, done: Result<String, ApiError>, reason: &str) -> Answered {
    match done {
        Ok(page) => Ok(Redirect::to(&page).into_response()),
        Err(error) => {
            let status = status_of(&error);
            show_schedule(visit, status, Some(error.into()), reason).await
        }
    }
}

fn route(visit: &Visit) -> String {
    format!("/v1/schedules/{}", words::encoded(visit.part("flow")))
}

async fn show_schedule(
    visit: &Visit,
    status: StatusCode,
    problem: Option<Trouble>,
    reason: &str,
) -> Answered {
    let json = route(visit);
    let detail: ScheduleDetail = visit.get(&json).await?;
    let (schedule, next) = (detail.schedule, detail.instants);
    let cursor = visit.parameter("cursor");
    let asked = [("limit", "50"), ("cursor", cursor)];
    let ticks: Found<Tick> = match cursor.is_empty() {
        true => Found {
            items: detail.ticks,
            next: detail.cursor,
        },
        false => {
            let older = words::address(&format!("{json}/ticks"), &asked);
            visit.get(&older).await?
        }
    };
    let flow = schedule.flow.as_str();
    let page = visit.page(&format!("/flows/{flow}"));
    let mut body = vec![
        markup::facts(vec![
            ("State", state(&schedule)),
            (
                "Flow",
                Markup::text(&format!("{flow} r{}", schedule.release)).link(&page),
            ),
            ("Recurrence", markup::code(&schedule.recurrence)),
            ("Zone", Markup::text(&schedule.zone)),
            ("Missed instants", Markup::text(&schedule.missed)),
            (
                "Paused by",
                schedule
                    .paused_by
                    .as_deref()
                    .map(Markup::text)
                    .unwrap_or_default(),
            ),
        ]),
        section("next", "The next instants", &instants(visit, &next)),
        section("ticks", "What came of the latest", &decided(visit, &ticks)),
    ];
    let offers = offers(visit, &schedule, reason, problem.is_some())?;
    body.push(section("acts", "Acts", &offers));
    let command = format!("semel schedule show {}", words::shell_word(flow));
    let title = format!("Schedule of {flow}");
    show_as(
        status,
        &Page {
            shell: Shell::new(visit, "/schedules", &title, &json, &command),
            heading_markup: Markup::text(&title),
            lead_markup: Markup::text(&format!("{}.", sentence(&schedule))),
            problem,
            body_markup: Markup::join(body),
        },
    )
}

/// Where the offset of the zone changes between two instants, that is said.
fn instants(visit: &Visit, next: &[Instant]) -> Markup {
    if next.is_empty() {
        let nothing = "There is none: while it is paused, no instant is due.";
        return Markup::text(nothing).within("p", "empty");
    }
    let offset = |one: &Instant| one.local.rsplit(' ').next().map(str::to_owned);
    let mut before = next.first().and_then(offset);
    let mut rows = Vec::new();
    for one in next {
        let now = offset(one);
        let seam = match now == before {
            true => Markup::default(),
            false => markup::other_state("doubt", "▲", "the clocks change before it"),
        };
        before = now;
        rows.push(vec![Markup::text(&one.local), visit.time(one.at), seam]);
    }
    markup::table("The next instants", &["Local time", "When", "Note"], &rows)
}

fn decided(visit: &Visit, ticks: &Found<Tick>) -> Markup {
    if ticks.items.is_empty() {
        return Markup::text("No instant has come yet.").within("p", "empty");
    }
    let dots: String = ticks
        .items
        .iter()
        .rev()
        .map(|tick| dot(visit, tick))
        .collect();
    let dots = assembled(format!("<p class=\"dots\" aria-hidden=\"true\">{dots}</p>"));
    let row = |tick: &Tick| {
        let run = tick.run.map(|run| {
            let run = run.to_string();
            markup::code(&run[..12]).link(&visit.page(&format!("/runs/{run}")))
        });
        vec![
            verdict(tick),
            visit.time(tick.nominal),
            Markup::text(&tick.instants.to_string()),
            run.unwrap_or_default(),
            tick.fired_by
                .as_deref()
                .map(Markup::text)
                .unwrap_or_default(),
            visit.time(tick.decided_at),
        ]
    };
    let rows: Vec<Vec<Markup>> = ticks.items.iter().map(row).collect();
    let columns = [
        "Verdict", "Instant", "Instants", "Run", "Fired by", "Decided",
    ];
    let mut parts = vec![
        dots,
        markup::table("Instants, the latest first", &columns, &rows),
    ];
    parts.extend(next_page(
        "Earlier instants",
        "",
        &[],
        ticks.next.as_deref(),
    ));
    Markup::join(parts)
}

fn dot(visit: &Visit, tick: &Tick) -> String {
    let (class, shape) = match (tick.verdict, tick.reason.as_deref()) {
        (TickVerdict::Fired, _) => ("good", "●"),
        (TickVerdict::Skipped, Some("missed")) => ("doubt", "▲"),
        (TickVerdict::Skipped, _) => ("quiet", "✕"),
    };
    let title = words::exact(tick.nominal, &visit.look.zone);
    format!("<span class=\"{class}\" title=\"{title}\">{shape}</span>")
}

fn offers(
    visit: &Visit,
    schedule: &Schedule,
    reason: &str,
    refused: bool,
) -> Result<Markup, ApiError> {
    let act = |verb: &str| {
        let page = visit.page(&format!("/schedules/{}/{verb}", schedule.flow));
        (page, Right::Operate)
    };
    let fields = |id| vec![forms::reason(id, reason)];
    let change = match schedule.paused_at {
        None => {
            let label = ("Pause this schedule", "danger");
            let form = offer(visit, act("pause"), fields("pause"), label)?;
            folded("Pause", refused, &form)
        }
        Some(_) => {
            let label = ("Resume this schedule", "");
            let form = offer(visit, act("resume"), fields("resume"), label)?;
            folded("Resume", refused, &form)
        }
    };
    let help = "One that the schedule names, such as 2026-11-17T08:00:00Z; empty: now. An instant that has its run gets no second one.";
    let at = forms::line("at", "Instant (optional)", "", help);
    let form = offer(visit, act("fire"), vec![at], ("Fire", ""))?;
    let fire = folded("Fire an instant", false, &form);
    Ok(Markup::join([change, fire]).within("div", "acts"))
}
