//! Duplicates: the repeats that were stopped, and how their payloads differ from the first one.

use std::collections::BTreeSet;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect};
use semel_api::Code;
use semel_api::types::{AcceptAsNew, DecidedHeld, Duplicate, HeldReason, Page as Found, RunDetail};
use semel_model::Right;
use serde_json::Value;

use super::acts::{self, Button, Offer, section};
use super::markup::{self, Markup, Whole};
use super::shell::{Page, Shell, Trouble, next_page, show, show_as, status_of};
use super::visit::{Form, Visit};
use super::{run, words};
use crate::answer::Answered;
use crate::error::ApiError;

/// The most places at which two payloads are shown to differ.
const DIFFERENCES_MAX: usize = 100;

/// The most characters of a place that are shown.
const PLACE_CHARS_MAX: usize = 256;

/// How deep payloads are compared.
const DEPTH_MAX: usize = 16;

/// `GET /console/{namespace}/duplicates`.
pub(super) async fn page(visit: Visit) -> Answered {
    let held = visit.parameter("held") == "yes";
    let asked = [
        ("held", if held { "true" } else { "" }),
        ("cursor", visit.parameter("cursor")),
    ];
    let json = words::address("/v1/duplicates", &asked);
    let sign = if json.contains('?') { '&' } else { '?' };
    let found: Found<Duplicate> = visit
        .get(&format!("{json}{sign}without_payloads=true"))
        .await?;
    let filter = [("held", if held { "yes" } else { "" })];
    let here = visit.page("/duplicates");
    let next = next_page("The next page", &here, &filter, found.next.as_deref());
    let command = if held {
        "semel duplicate list --held"
    } else {
        "semel duplicate list"
    };
    let other = match held {
        true => Markup::text("All that were stopped").link(&visit.page("/duplicates")),
        false => Markup::text("Only what is held").link(&visit.page("/duplicates?held=yes")),
    };
    let body = match found.items.is_empty() {
        true => Markup::text("No repeat was stopped. Send a delivery twice under one key: the second gets the first answer, and stands here.").within("p", "empty"),
        false => table(&visit, "Repeats, the latest first", &found.items),
    };
    show(&Page {
        shell: Shell::new(&visit, "/duplicates", "Duplicates", &json, command),
        heading_markup: Markup::fixed("Duplicates"),
        lead_markup: Markup::fixed(
            "Repeats that started no second run, with where each was stopped.",
        ),
        problem: None,
        body_markup: Markup::join([other.within("p", "presets"), body].into_iter().chain(next)),
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
    let json = format!("/v1/duplicates?run={id}");
    let detail: RunDetail = visit.get(&format!("/v1/runs/{id}")).await?;
    let found: Found<Duplicate> = visit.get(&json).await?;
    let mut parts = vec![match found.items.is_empty() {
        true => Markup::text("No repeat of this run was stopped.").within("p", "empty"),
        false => table(visit, "Repeats of this run", &found.items),
    }];
    for (number, duplicate) in found.items.iter().enumerate() {
        parts.push(details(visit, &detail, (number + 1, duplicate), reason)?);
    }
    let command = format!("semel duplicate list --run {}", detail.run.id);
    let title = format!("Repeats of {}", detail.run.key);
    let href = visit.page(&format!("/runs/{}", detail.run.id));
    show_as(
        status,
        &Page {
            shell: Shell::new(visit, "/duplicates", &title, &json, &command),
            heading_markup: Markup::join([
                Markup::fixed("Repeats of"),
                markup::code(&detail.run.key),
            ]),
            lead_markup: Markup::text("The run that answered them").link(&href),
            problem,
            body_markup: Markup::join(parts),
        },
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
        fields: vec![acts::reason(&format!("known-{number}"), reason)],
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
            acts::line_of(
                (&format!("new-key-{number}"), "new_key"),
                "Key of the new run",
                "",
                help,
            ),
            acts::reason(&format!("new-{number}"), reason),
        ],
        buttons: vec![button("Start a run of its own", "", "new")],
    };
    Ok(Markup::join([
        acts::folded("A repeat, or nothing", true, &acts::form(visit, known)?),
        acts::folded("Something new", false, &acts::form(visit, new)?),
    ])
    .within("div", "acts"))
}

/// Where two payloads differ, by JSON pointer.
fn differences(first: &Value, other: &Value, whole: &Whole) -> Markup {
    let mut found = Vec::new();
    compare(first, other, &mut String::new(), 0, &mut found);
    let cut = found.len() > DIFFERENCES_MAX;
    found.truncate(DIFFERENCES_MAX);
    let side = |value: Option<Value>| match value {
        Some(value) => markup::block(&value.to_string(), whole),
        None => Markup::text("not there").within("span", "quiet-text"),
    };
    let rows: Vec<Vec<Markup>> = found
        .into_iter()
        .map(|(path, first, other)| vec![markup::code(&path), side(first), side(other)])
        .collect();
    let table = markup::table("Differences", &["Where", "First", "Repeat"], &rows);
    match cut {
        true => Markup::join([
            table,
            Markup::fixed("<p class=\"help\">There are more differences.</p>"),
        ]),
        false => table,
    }
}

type Difference = (String, Option<Value>, Option<Value>);

fn compare(
    first: &Value,
    other: &Value,
    path: &mut String,
    depth: usize,
    found: &mut Vec<Difference>,
) {
    if first == other || found.len() > DIFFERENCES_MAX {
        return;
    }
    match (first, other) {
        (Value::Object(one), Value::Object(two)) if depth < DEPTH_MAX => {
            let names: BTreeSet<&String> = one.keys().chain(two.keys()).collect();
            for name in names {
                if found.len() > DIFFERENCES_MAX {
                    return;
                }
                let part = name.replace('~', "~0").replace('/', "~1");
                below(path, &part, (one.get(name), two.get(name)), depth, found);
            }
        }
        (Value::Array(one), Value::Array(two)) if depth < DEPTH_MAX => {
            for index in 0..one.len().max(two.len()) {
                if found.len() > DIFFERENCES_MAX {
                    return;
                }
                let part = index.to_string();
                below(path, &part, (one.get(index), two.get(index)), depth, found);
            }
        }
        _ => {
            let place = if path.is_empty() { "/" } else { path.as_str() };
            found.push((shown(place), Some(first.clone()), Some(other.clone())));
        }
    }
}

/// A place in a payload, short enough to be shown: senders choose its names.
fn shown(path: &str) -> String {
    match path.char_indices().nth(PLACE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &path[..end]),
        None => path.to_owned(),
    }
}

fn below(
    path: &mut String,
    part: &str,
    pair: (Option<&Value>, Option<&Value>),
    depth: usize,
    found: &mut Vec<Difference>,
) {
    if found.len() > DIFFERENCES_MAX {
        return;
    }
    let len = path.len();
    path.push('/');
    path.push_str(part);
    match pair {
        (Some(first), Some(other)) => compare(first, other, path, depth + 1, found),
        (first, other) => found.push((shown(path), first.cloned(), other.cloned())),
    }
    path.truncate(len);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hostile_payloads_make_a_short_list_of_short_places() {
        let name = "x".repeat(10_000);
        let many: Vec<u32> = (0..100_000).collect();
        let mut found = Vec::new();
        let (first, other) = (json!({ name.clone(): [] }), json!({ name: many }));

        compare(&first, &other, &mut String::new(), 0, &mut found);

        assert_eq!(found.len(), DIFFERENCES_MAX + 1);
        let longest = found.iter().map(|(place, ..)| place.chars().count()).max();
        assert_eq!(longest, Some(PLACE_CHARS_MAX + 1));
    }

    #[test]
    fn payloads_differ_by_pointer() {
        let mut found = Vec::new();
        let (first, other) = (
            json!({"id": 1, "a/b": [1, 2], "gone": true}),
            json!({"id": 1, "a/b": [1, 3, 4]}),
        );

        compare(&first, &other, &mut String::new(), 0, &mut found);

        let places: Vec<&str> = found.iter().map(|(place, ..)| place.as_str()).collect();
        assert_eq!(places, ["/a~1b/1", "/a~1b/2", "/gone"]);
    }
}
