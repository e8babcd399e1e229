//! Waits: what runs wait for from outside, and completing one in place of its callback.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect};
use semel_api::Code;
use semel_api::types::{Approval, Called, CompleteWait, Page as Found, Wait};
use semel_model::Right;
use serde_json::Value;

use super::forms::{self, offer, section};
use super::jobs::run_link;
use super::markup::{self, Markup};
use super::named_runs::NamedRuns;
use super::shell::{Page, Shell, Trouble, keep, next_page, show_as, show_list, status_of};
use super::visit::{Form, Visit};
use super::{empty, words};
use crate::answer::Answered;
use crate::error::ApiError;

/// `GET /console/{namespace}/waits`.
pub(super) async fn page(visit: Visit) -> Answered {
    let (all, cursor) = (visit.parameter("all") == "yes", visit.parameter("cursor"));
    let asked = [("all", if all { "true" } else { "" }), ("cursor", cursor)];
    let json = words::address("/v1/waits", &asked);
    let mut command = "semel wait list".to_owned();
    if all {
        command.push_str(" --all");
    }
    if !cursor.is_empty() {
        words::push_option(&mut command, "cursor", cursor);
    }
    let here = visit.page("/waits");
    let other = match all {
        true => Markup::text("Only open ones").link(&here),
        false => Markup::text("Ended ones, too").link(&format!("{here}?all=yes")),
    };
    let approvals = Markup::text("Approvals").link(&visit.page("/approvals"));
    let links = Markup::join([approvals, other]).within("p", "presets");
    let shell = Shell::new(&visit, "/approvals", "Waits", &json, &command);
    let found: Found<Wait> = match visit.get(&json).await {
        Ok(found) => found,
        Err(error) => return keep(shell, error, vec![links]),
    };
    let named = NamedRuns::of(&visit, found.items.iter().map(|it| it.run).collect()).await?;
    let row = |wait: &Wait| {
        let at = |at: Option<jiff::Timestamp>| at.map(|at| visit.time(at)).unwrap_or_default();
        let step = wait.step.as_deref().unwrap_or("not reached yet");
        vec![
            state(wait),
            markup::code(step).link(&visit.page(&format!("/waits/{}", wait.id))),
            at(wait.opened_at),
            at(wait.until),
            at(wait.ended_at),
            named.link(&visit, wait.run),
        ]
    };
    let rows: Vec<Vec<Markup>> = found.items.iter().map(row).collect();
    let columns = [
        "State",
        "Step",
        "Opened",
        "Until",
        "Ended",
        "Key of the run",
    ];
    let list = match (rows.is_empty(), &found.next) {
        (true, None) => empty::teach(
            "No run waits for anything from outside. A step of the kind wait does, until a callback or an event comes or its time is over.",
            "semel wait list --all",
            "docs/steps/wait.md",
        ),
        (true, Some(_)) => Markup::text("Among the newest waits none is open. Older ones may be.")
            .within("p", "empty"),
        (false, _) => markup::table("Waits, the newest first", &columns, &rows),
    };
    let filter = [("all", if all { "yes" } else { "" })];
    let next = next_page("Older waits", &here, &filter, found.next.as_deref());
    let lead = Markup::fixed("What runs wait for: a callback, an event or a time.");
    let body = [links, list].into_iter().chain(next);
    show_list(shell, lead, body.collect())
}

fn state(wait: &Wait) -> Markup {
    match wait.state.as_str() {
        "open" => markup::other_state("rest", "◔", "open"),
        "answered" => markup::other_state("good", "●", "answered"),
        other => markup::other_state("quiet", "✕", other),
    }
}

fn route(visit: &Visit) -> String {
    format!("/v1/waits/{}", words::encoded(visit.part("wait")))
}

/// `GET /console/{namespace}/waits/{wait}`. An approval is a wait with a page of its own.
pub(super) async fn show_one(visit: Visit) -> Answered {
    let shown = show_wait(&visit, StatusCode::OK, None, "").await;
    match shown {
        Err(error) if error.problem().code() == Some(Code::WaitNotFound) => {
            let id = words::encoded(visit.part("wait"));
            let found: Result<Approval, ApiError> = visit.get(&format!("/v1/approvals/{id}")).await;
            match found {
                Ok(_) => {
                    let page = visit.page(&format!("/approvals/{id}"));
                    Ok(Redirect::to(&page).into_response())
                }
                Err(_) => Err(error),
            }
        }
        shown => shown,
    }
}

/// `POST /console/{namespace}/waits/{wait}/complete`.
pub(super) async fn complete(visit: Visit, form: Form) -> Answered {
    let typed = form.get("payload");
    let payload = match typed.is_empty() {
        true => Ok(Value::Null),
        false => serde_json::from_str(typed).map_err(|_| {
            let detail = "the payload is not JSON; a text stands in quotes";
            ApiError::new(Code::BodyInvalid, detail)
        }),
    };
    let done: Result<Called, ApiError> = match payload {
        Ok(payload) => {
            let address = format!("{}/complete", route(&visit));
            visit.post(&address, &form, &CompleteWait { payload }).await
        }
        Err(error) => Err(error),
    };
    match done {
        Ok(_) => {
            let page = visit.page(&format!("/waits/{}", visit.part("wait")));
            Ok(Redirect::to(&page).into_response())
        }
        Err(error) => {
            let status = status_of(&error);
            show_wait(&visit, status, Some(error.into()), typed).await
        }
    }
}

async fn show_wait(
    visit: &Visit,
    status: StatusCode,
    problem: Option<Trouble>,
    typed: &str,
) -> Answered {
    let json = route(visit);
    let wait: Wait = visit.get(&json).await?;
    let at = |at: Option<jiff::Timestamp>| at.map(|at| visit.time(at)).unwrap_or_default();
    let mut body = vec![markup::facts(vec![
        ("State", state(&wait)),
        ("Run", run_link(visit, wait.run)),
        ("Opened", at(wait.opened_at)),
        ("Until", at(wait.until)),
        ("Ended", at(wait.ended_at)),
        ("Wait", markup::code(&wait.id.to_string())),
    ])];
    if let Some(payload) = &wait.payload {
        let value = markup::value(payload, &visit.whole());
        body.push(section("payload", "What came", &value));
    }
    if wait.state == "open" {
        let fields = vec![forms::lines(
            "payload",
            "Payload, as JSON",
            typed,
            "What the flow reads as the wait's result. Left empty: null.",
        )];
        let action = visit.page(&format!("/waits/{}/complete", wait.id));
        let form = offer(
            visit,
            (action, Right::Operate),
            fields,
            ("Complete this wait", ""),
        )?;
        let box_of = form.within("div", "box");
        body.push(section(
            "complete",
            "Complete it in place of its callback",
            &box_of,
        ));
    }
    let command = format!("semel wait show {}", wait.id);
    let step = wait.step.as_deref().unwrap_or("a wait");
    show_as(
        status,
        &Page {
            shell: Shell::new(visit, "/approvals", step, &json, &command),
            heading_markup: markup::code(step),
            lead_markup: Markup::default(),
            problem,
            body_markup: Markup::join(body),
        },
    )
}
