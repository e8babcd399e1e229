//! One run: a sentence, its timeline, effects, waits, input and result, and its journal.

pub(super) mod items;
pub(super) mod replay;
mod sentence;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect};
use semel_api::types::{
    Cancel, Cancelled, JournalLine, Resume, Resumed, Run, RunDetail, RunStatus,
};
use semel_model::Right;
use serde_json::Value;

use super::forms::{self, Button, Offer};
use super::markup::{self, Markup, Whole, assembled};
use super::shell::{Page, Shell, Trouble, show_large, status_of};
use super::visit::{Form, Visit};
use super::{effects, events, story, timeline, words};
use crate::answer::Answered;
use crate::error::ApiError;
use crate::live::Topic;

/// `GET /console/{namespace}/runs/{run}`.
pub(super) async fn page(visit: Visit) -> Answered {
    show_run(&visit, StatusCode::OK, None, "").await
}

/// `POST /console/{namespace}/runs/{run}/cancel`.
pub(super) async fn cancel(visit: Visit, form: Form) -> Answered {
    let reason = form.get("reason").to_owned();
    let route = format!("{}/cancel", route(&visit));
    let done = visit
        .post::<Cancelled>(&route, &form, &Cancel { reason })
        .await;
    finish(&visit, &form, done.map(drop)).await
}

/// `POST /console/{namespace}/runs/{run}/resume`.
pub(super) async fn resume(visit: Visit, form: Form) -> Answered {
    let ask = Resume {
        reason: form.get("reason").to_owned(),
        ask_again: form.get("ask_again") == "yes",
    };
    let route = format!("{}/resume", route(&visit));
    let done = visit.post::<Resumed>(&route, &form, &ask).await;
    finish(&visit, &form, done.map(drop)).await
}

/// The run as it is now, with its audit record; or as it was, with what was wrong.
async fn finish(visit: &Visit, form: &Form, done: Result<(), ApiError>) -> Answered {
    match done {
        Ok(()) => {
            let page = visit.page(&format!("/runs/{}#audit", visit.part("run")));
            Ok(Redirect::to(&page).into_response())
        }
        Err(error) => {
            let status = status_of(&error);
            show_run(visit, status, Some(error.into()), form.get("reason")).await
        }
    }
}

fn route(visit: &Visit) -> String {
    format!("/v1/runs/{}", words::encoded(visit.part("run")))
}

async fn show_run(
    visit: &Visit,
    status: StatusCode,
    problem: Option<Trouble>,
    reason: &str,
) -> Answered {
    let json = route(visit);
    let following = match visit.part("run").parse() {
        Ok(run) => visit.follow(Topic::Run(run)).await,
        Err(_) => None,
    };
    let (detail, memory): (RunDetail, _) = visit.get_large(&json).await?;
    let run = &detail.run;
    let command = format!("semel run show {}", run.id);
    let title = format!("{} · {}", run.key, run.flow);
    let items = items::beside(visit, &detail).await?;
    show_large(
        status,
        &Page {
            shell: Shell::new(visit, "/runs", &title, &json, &command).following(following),
            heading_markup: markup::code(&run.key),
            lead_markup: sentence::sentence(visit, &detail),
            body_markup: body(visit, &detail, items, (reason, problem.is_some()))?,
            problem,
        },
        memory,
    )
}

fn body(
    visit: &Visit,
    detail: &RunDetail,
    items: Markup,
    typed: (&str, bool),
) -> Result<Markup, ApiError> {
    let whole = visit.whole();
    let mut parts = vec![facts(visit, &detail.run)];
    let first = timeline::first_row(visit.parameter("rows"));
    let picture = timeline::draw(&detail.journal, first);
    if !picture.is_empty() {
        parts.push(forms::section("timeline", "Timeline", &picture));
    }
    if !detail.effects.is_empty() {
        let table = match detail.run.archived_at {
            Some(_) => effects::archived_table,
            None => effects::table,
        };
        let table = table(visit, "Effects of this run", &detail.effects);
        parts.push(forms::section("effects", "Effects", &table));
    }
    let emitted = match detail.run.archived_at {
        Some(_) => Markup::default(),
        None => events::of_run(visit, &detail.effects),
    };
    if !emitted.is_empty() {
        parts.push(forms::section("events", "Events", &emitted));
    }
    if !detail.child_runs.is_empty() {
        let done = detail.under_key.as_ref().map(|told| {
            story::table_of_children(visit, "What was done in items and branches", told)
        });
        parts.push(forms::section(
            "items",
            "Items and branches",
            &Markup::join([child_runs(detail), done.unwrap_or_default(), items]),
        ));
    }
    if !detail.waits.is_empty() {
        parts.push(forms::section("waits", "Waits", &waits(visit, detail)));
    }
    parts.push(forms::section(
        "values",
        "Input and result",
        &values(visit, detail, &whole),
    ));
    let offers = offers(visit, detail, typed)?;
    if !offers.is_empty() {
        parts.push(forms::section("acts", "Acts", &offers));
    }
    if !detail.acts.is_empty() {
        let table = effects::acts_table(visit, &detail.acts);
        parts.push(forms::section("audit", "What operators did", &table));
    }
    parts.push(forms::section(
        "journal",
        "Journal",
        &journal(visit, detail),
    ));
    Ok(Markup::join(parts))
}

fn facts(visit: &Visit, run: &Run) -> Markup {
    let key = [("key", run.key.as_str())];
    let story = words::address(&visit.page("/keys"), &key);
    let flow = visit.page(&format!("/flows/{}", run.flow));
    markup::facts(vec![
        ("State", markup::run_state(run.state)),
        (
            "Flow",
            Markup::text(&format!("{} r{}", run.flow, run.release)).link(&flow),
        ),
        ("Accepted", visit.time(run.accepted_at)),
        (
            "Ended",
            run.ended_at.map(|at| visit.time(at)).unwrap_or_default(),
        ),
        ("Run", markup::code(&run.id.to_string())),
        (
            "Everything about the key",
            Markup::text("Story of this key").link(&story),
        ),
        (
            "Repeats",
            Markup::text("Repeats of this run")
                .link(&visit.page(&format!("/runs/{}/duplicates", run.id))),
        ),
        (
            "Part of",
            run.parent
                .map(|parent| {
                    let parent = parent.to_string();
                    markup::code(&parent).link(&visit.page(&format!("/runs/{parent}")))
                })
                .unwrap_or_default(),
        ),
    ])
}

fn child_runs(detail: &RunDetail) -> Markup {
    let rows: Vec<Vec<Markup>> = detail
        .child_runs
        .iter()
        .map(|step| {
            let number = |number: i64| Markup::text(&number.to_string());
            vec![
                markup::code(&step.step),
                number(step.count),
                number(step.succeeded),
                number(step.failed),
                number(step.open + step.pending),
            ]
        })
        .collect();
    let columns = ["Step", "All", "Done", "Failed", "Not ended"];
    markup::table("Items and branches", &columns, &rows)
}

fn waits(visit: &Visit, detail: &RunDetail) -> Markup {
    let rows: Vec<Vec<Markup>> = detail
        .waits
        .iter()
        .map(|wait| {
            let at = |at: Option<jiff::Timestamp>| at.map(|at| visit.time(at)).unwrap_or_default();
            let state = match wait.state.as_str() {
                "open" => markup::other_state("rest", "◔", "open"),
                "answered" => markup::other_state("good", "●", "answered"),
                other => markup::other_state("quiet", "✕", other),
            };
            vec![
                markup::code(wait.step.as_deref().unwrap_or("-")),
                state,
                at(wait.opened_at),
                at(wait.until),
                at(wait.ended_at),
                markup::code(&wait.id.to_string())
                    .link(&visit.page(&format!("/waits/{}", wait.id))),
            ]
        })
        .collect();
    let columns = ["Step", "State", "Opened", "Until", "Ended", "Wait"];
    markup::table("Waits", &columns, &rows)
}

/// What the first delivery brought, where the journal says it to this token.
pub(super) fn input(journal: &[JournalLine]) -> Option<&Value> {
    let mut events = journal.iter().flat_map(|line| &line.events);
    let accepted = events.find(|event| event.event["event"] == "accepted")?;
    accepted.event.get("input")
}

fn values(visit: &Visit, detail: &RunDetail, whole: &Whole) -> Markup {
    let hidden = visit.lacks(Right::Payload);
    let hidden =
        hidden.unwrap_or_else(|| "The history of this run is not kept any longer.".to_owned());
    let mut parts = Vec::new();
    match input(&detail.journal) {
        Some(input) => {
            parts.push(Markup::fixed("<h3>Input</h3>"));
            parts.push(markup::value(input, whole));
        }
        None if detail.journal.iter().all(|line| line.events.is_empty()) => {
            parts.push(Markup::text(&hidden).within("p", "help"));
        }
        None => parts.push(Markup::text("The run has no input of its own.").within("p", "help")),
    }
    if let Some(result) = &detail.run.result {
        parts.push(Markup::fixed("<h3>Result</h3>"));
        parts.push(markup::value(result, whole));
    }
    if let Some(fault) = &detail.run.fault {
        parts.push(Markup::fixed("<h3>Fault</h3>"));
        parts.push(markup::value(fault, whole));
    }
    Markup::join(parts)
}

fn offers(
    visit: &Visit,
    detail: &RunDetail,
    (reason, refused): (&str, bool),
) -> Result<Markup, ApiError> {
    let run = &detail.run;
    if run.archived_at.is_some() {
        return Ok(Markup::default());
    }
    let mut offers = Vec::new();
    let act = |verb: &str| visit.page(&format!("/runs/{}/{verb}", run.id));
    let resumable = [
        RunStatus::Failed,
        RunStatus::NeedsReview,
        RunStatus::Quarantined,
    ];
    if resumable.contains(&run.state) && run.erased_at.is_none() {
        let form = forms::form(
            visit,
            Offer {
                action: act("resume"),
                right: Right::Operate,
                fields: vec![
                    forms::check(
                        "ask_again",
                        "If an approval was rejected or ran out of time: ask the people again.",
                    ),
                    forms::reason("resume", reason),
                ],
                buttons: vec![Button {
                    label: "Resume this run",
                    class: "",
                    decision: "resume",
                }],
            },
        )?;
        offers.push(forms::folded("Resume", refused, &form));
    }
    if !run.state.is_ended() && !run.cancelling {
        let form = forms::form(
            visit,
            Offer {
                action: act("cancel"),
                right: Right::Operate,
                fields: vec![forms::reason("cancel", reason)],
                buttons: vec![Button {
                    label: "Cancel this run",
                    class: "danger",
                    decision: "cancel",
                }],
            },
        )?;
        offers.push(forms::folded("Cancel", refused, &form));
    }
    offers.extend(replay::link(visit, detail));
    match offers.is_empty() {
        true => Ok(Markup::default()),
        false => Ok(Markup::join(offers).within("div", "acts")),
    }
}

fn journal(visit: &Visit, detail: &RunDetail) -> Markup {
    let start = detail.run.accepted_at;
    let rows: Vec<Vec<Markup>> = detail
        .journal
        .iter()
        .map(|line| {
            let said = line.events.iter().map(|event| Markup::text(&event.summary));
            let said: Vec<Markup> = said.map(|text| text.within("div", "event")).collect();
            vec![
                assembled(format!("<span id=\"seq-{0}\">{0}</span>", line.seq)),
                visit.time(line.at),
                Markup::text(&format!("+{}", words::between(start, line.at))),
                Markup::join(said),
            ]
        })
        .collect();
    markup::table("Journal", &["No.", "When", "After", "What happened"], &rows)
}
