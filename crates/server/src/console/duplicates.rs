//! Duplicates: the repeats that were stopped, and how their payloads differ from the first one.

mod differences;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect};
use semel_api::Code;
use semel_api::types::{AcceptAsNew, DecidedHeld, Duplicate, HeldReason, Page as Found, RunDetail};
use semel_model::Right;

use super::forms::{self, Button, Offer, section};
use super::markup::{self, Markup};
use super::shell::{Page, Shell, Trouble, keep, next_page, show, show_large, status_of};
use super::visit::{Form, Visit};
use super::{empty, run, words};
use crate::answer::Answered;
use crate::error::ApiError;
use differences::differences;

/// `GET /console/{namespace}/duplicates`.
pub(super) async fn page(visit: Visit) -> Answered {
    let held = visit.parameter("held") == "yes";
    let asked = [
        ("held", if held { "true" } else { "" }),
        ("cursor", visit.parameter("cursor")),
    ];
    let json = words::address("/v1/duplicates", &asked);
    let sign = if json.contains('?') { '&' } else { '?' };
    let filter = [("held", if held { "yes" } else { "" })];
    let here = visit.page("/duplicates");
    let command = if held {
        "semel duplicate list --held"
    } else {
        "semel duplicate list"
    };
    let other = match held {
        true => Markup::text("All that were stopped").link(&visit.page("/duplicates")),
        false => Markup::text("Only what is held").link(&visit.page("/duplicates?held=yes")),
    };
    let refused = Markup::text("Refused deliveries").link(&visit.page("/refusals"));
    let other = Markup::join([other, refused]).within("p", "presets");
    let shell = Shell::new(&visit, "/duplicates", "Duplicates", &json, command);
    let found: Found<Duplicate> = match visit
        .get(&format!("{json}{sign}without_payloads=true"))
        .await
    {
        Ok(found) => found,
        Err(error) => return keep(shell, error, vec![other]),
    };
    let next = next_page("The next page", &here, &filter, found.next.as_deref());
    let body = match found.items.is_empty() {
        true => empty::teach(
            "No repeat was stopped. Send a delivery twice under one key: the second gets the first answer, and stands here.",
            "semel run start FLOW --key order-1 --input '{}'",
            "docs/concepts.md",
        ),
        false => table(&visit, "Repeats, the latest first", &found.items),
    };
    show(&Page {
        shell,
        heading_markup: Markup::fixed("Duplicates"),
        lead_markup: Markup::fixed(
            "Repeats that started no second run, with where each was stopped.",
        ),
        problem: None,
        body_markup: Markup::join([other, body].into_iter().chain(next)),
    })
}

/// Duplicates as a table.
pub(super) fn table(visit: &Visit, caption: &str, duplicates: &[Duplicate]) -> Markup {
    let row = |one: &Duplicate| {
        let page = visit.page(&format!("/runs/{}/duplicates", one.run));
        let key = one.key.as_deref().unwrap_or("unknown");
        vec![
            verdict(one),
            markup::code(key).link(&page),
            Markup::text(one.flow.as_deref().unwrap_or("-")),
            Markup::text(&one.stopped_by),
            Markup::text(&one.count.to_string()),
            visit.time(one.first_at),
            visit.time(one.last_at),
        ]
    };
    let rows: Vec<Vec<Markup>> = duplicates.iter().map(row).collect();
    let columns = [
        "Verdict",
        "Key",
        "Flow",
        "Stopped by",
        "Count",
        "First",
        "Latest",
    ];
    markup::table(caption, &columns, &rows)
}

fn verdict(duplicate: &Duplicate) -> Markup {
    match (duplicate.verdict.as_str(), &duplicate.decision) {
        ("repeat", _) => markup::other_state("good", "●", "repeat"),
        ("held", None) => markup::other_state("doubt", "▲", "held"),
        ("mismatch", _) => markup::other_state("bad", "■", "another payload"),
        (other, _) => markup::other_state("quiet", "✕", other),
    }
}

/// `GET /console/{namespace}/runs/{run}/duplicates`.
pub(super) async fn of_run(visit: Visit) -> Answered {
    show_repeats(&visit, StatusCode::OK, None, "").await
}

/// `POST /console/{namespace}/runs/{run}/duplicates/{duplicate}`: what becomes of a held delivery.
pub(super) async fn decide(visit: Visit, form: Form) -> Answered {
    let route = format!("/v1/duplicates/{}", words::encoded(visit.part("duplicate")));
    let reason = form.get("reason").to_owned();
    let done: Result<DecidedHeld, ApiError> = match form.get("decision") {
        "new" => {
            let key = form.get("new_key").to_owned();
            let ask = AcceptAsNew { key, reason };
            visit
                .post(&format!("{route}/accept-as-new"), &form, &ask)
                .await
        }
        "repeat" => {
            let ask = HeldReason { reason };
            visit
                .post(&format!("{route}/accept-as-repeat"), &form, &ask)
                .await
        }
        "dismiss" => {
            let ask = HeldReason { reason };
            visit.post(&format!("{route}/dismiss"), &form, &ask).await
        }
        _ => Err(ApiError::new(Code::BodyInvalid, "say what becomes of it")),
    };
    match done {
        Ok(_) => {
            let page = visit.page(&format!("/runs/{}/duplicates", visit.part("run")));
            Ok(Redirect::to(&page).into_response())
        }
        Err(error) => {
            let status = status_of(&error);
            show_repeats(&visit, status, Some(error.into()), form.get("reason")).await
        }
    }
}

async fn show_repeats(
    visit: &Visit,
    status: StatusCode,
    problem: Option<Trouble>,
    reason: &str,
) -> Answered {
    let id = words::encoded(visit.part("run"));
    let asked = [
        ("run", visit.part("run")),
        ("cursor", visit.parameter("cursor")),
    ];
    let json = words::address("/v1/duplicates", &asked);
    let address = format!("/v1/runs/{id}");
    let (detail, memory): (RunDetail, _) = visit.get_large(&address).await?;
    let title = format!("Repeats of {}", detail.run.key);
    let command = format!("semel duplicate list --run {}", detail.run.id);
    let shell = Shell::new(visit, "/duplicates", &title, &json, &command);
    let found: Found<Duplicate> = match visit.get(&json).await {
        Ok(found) => found,
        Err(error) => return keep(shell, error, Vec::new()),
    };
    let mut parts = vec![match found.items.is_empty() {
        true => Markup::text("No repeat of this run was stopped.").within("p", "empty"),
        false => table(visit, "Repeats of this run", &found.items),
    }];
    for (number, duplicate) in found.items.iter().enumerate() {
        parts.push(details(visit, &detail, (number + 1, duplicate), reason)?);
    }
    let href = visit.page(&format!("/runs/{}", detail.run.id));
    let here = format!("{href}/duplicates");
    parts.extend(next_page(
        "Older repeats",
        &here,
        &[],
        found.next.as_deref(),
    ));
    show_large(
        status,
        &Page {
            shell,
            heading_markup: Markup::join([
                Markup::fixed("Repeats of"),
                markup::code(&detail.run.key),
            ]),
            lead_markup: Markup::text("The run that answered them").link(&href),
            problem,
            body_markup: Markup::join(parts),
        },
        memory,
    )
}

/// How a payload differs, and what can be decided about a delivery that is held.
fn details(
    visit: &Visit,
    detail: &RunDetail,
    (number, duplicate): (usize, &Duplicate),
    reason: &str,
) -> Result<Markup, ApiError> {
    let mut parts = Vec::new();
    if let (Some(first), Some(payload)) = (run::input(&detail.journal), &duplicate.payload) {
        let table = differences(first, payload, &visit.whole());
        let id = format!("difference-{number}");
        parts.push(section(&id, "How the payload differs", &table));
    }
    if let Some(decision) = &duplicate.decision {
        let said = format!(
            "Decided by {}: {}.",
            decision.by,
            decision.decision.replace('_', " ")
        );
        parts.push(Markup::text(&said).within("p", "verdict"));
    }
    if let (Some(id), "held", None) = (
        duplicate.duplicate,
        duplicate.verdict.as_str(),
        &duplicate.decision,
    ) {
        let action = visit.page(&format!("/runs/{}/duplicates/{id}", detail.run.id));
        // What was typed belongs into the form that it was typed into.
        let is_own = visit.part("duplicate") == id.to_string();
        let reason = if is_own { reason } else { "" };
        let offers = offers(visit, (number, &action), reason)?;
        let id = format!("decide-{number}");
        parts.push(section(&id, "What becomes of it", &offers));
    }
    Ok(Markup::join(parts))
}

fn offers(
    visit: &Visit,
    (number, action): (usize, &str),
    reason: &str,
) -> Result<Markup, ApiError> {
    let button = |label, class, decision| Button {
        label,
        class,
        decision,
    };
    let known = Offer {
        action: action.to_owned(),
        right: Right::Operate,
        fields: vec![forms::reason(&format!("known-{number}"), reason)],
        buttons: vec![
            button("It is a repeat", "", "repeat"),
            button("Dismiss it", "danger", "dismiss"),
        ],
    };
    let help = "It gets a run of its own under this key.";
    let new = Offer {
        action: action.to_owned(),
        right: Right::Override,
        fields: vec![
            forms::line_of(
                (&format!("new-key-{number}"), "new_key"),
                "Key of the new run",
                "",
                help,
            ),
            forms::reason(&format!("new-{number}"), reason),
        ],
        buttons: vec![button("Start a run of its own", "", "new")],
    };
    Ok(Markup::join([
        forms::folded("A repeat, or nothing", true, &forms::form(visit, known)?),
        forms::folded("Something new", false, &forms::form(visit, new)?),
    ])
    .within("div", "acts"))
}
