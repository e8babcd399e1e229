//! Approvals: what people are asked, and their decisions.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect};
use semel_api::Code;
use semel_api::types::{Approval, Decide, DecidedApproval, Page as Found};
use semel_model::Right;
use semel_model::approval::{ApprovalDecision, Digest};

use super::forms::{self, Button, Offer};
use super::markup::{self, Markup, Whole};
use super::shell::{Page, Shell, Trouble, keep, next_page, show, show_as, status_of};
use super::visit::{Form, Visit};
use super::{empty, words};
use crate::answer::Answered;
use crate::error::ApiError;

/// `GET /console/{namespace}/approvals`.
pub(super) async fn page(visit: Visit) -> Answered {
    let all = visit.parameter("all") == "yes";
    let asked = [
        ("all", if all { "true" } else { "" }),
        ("cursor", visit.parameter("cursor")),
    ];
    let json = words::address("/v1/approvals", &asked);
    let filter = [("all", if all { "yes" } else { "" })];
    let here = visit.page("/approvals");
    let command = if all {
        "semel approval list --all"
    } else {
        "semel approval list"
    };
    let other = match all {
        true => Markup::text("Only those to decide").link(&visit.page("/approvals")),
        false => Markup::text("Decided ones, too").link(&visit.page("/approvals?all=yes")),
    };
    let waits = Markup::text("Other waits").link(&visit.page("/waits"));
    let other = Markup::join([other, waits]).within("p", "presets");
    let shell = Shell::new(&visit, "/approvals", "Approvals", &json, command);
    let found: Found<Approval> = match visit.get(&json).await {
        Ok(found) => found,
        Err(error) => return keep(shell, error, vec![other]),
    };
    let next = next_page("The next page", &here, &filter, found.next.as_deref());
    let body = match found.items.is_empty() {
        true => empty::teach(
            "Nobody is asked for anything. A step of the kind approval asks people, and its run waits for their decision.",
            "semel approval list --all",
            "docs/approvals.md",
        ),
        false => table(&visit, "Approvals", &found.items),
    };
    show(&Page {
        shell,
        heading_markup: Markup::fixed("Approvals"),
        lead_markup: Markup::default(),
        problem: None,
        body_markup: Markup::join([other, body].into_iter().chain(next)),
    })
}

/// Approvals as a table.
pub(super) fn table(visit: &Visit, caption: &str, approvals: &[Approval]) -> Markup {
    let row = |one: &Approval| {
        let page = visit.page(&format!("/approvals/{}", one.approval));
        vec![
            state(one),
            Markup::text(&format!("{} · {}", one.flow, one.step)).link(&page),
            one.key.as_deref().map(markup::code).unwrap_or_default(),
            Markup::text(&one.from.join(", ")),
            visit.time(one.opened_at),
            one.until.map(|at| visit.time(at)).unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<Markup>> = approvals.iter().map(row).collect();
    markup::table(
        caption,
        &["State", "What", "Key", "From", "Asked", "Until"],
        &rows,
    )
}

fn state(approval: &Approval) -> Markup {
    match &approval.decision {
        Some(decision) if decision.approved => markup::other_state("good", "●", "approved"),
        Some(_) => markup::other_state("bad", "■", "rejected"),
        None if approval.ended_at.is_some() => {
            markup::other_state("quiet", "✕", approval.state.as_str())
        }
        None => markup::other_state("rest", "◔", "to decide"),
    }
}

/// `GET /console/{namespace}/approvals/{approval}`.
pub(super) async fn show_one(visit: Visit) -> Answered {
    show_approval(&visit, StatusCode::OK, None, "").await
}

/// `POST /console/{namespace}/approvals/{approval}/decide`.
pub(super) async fn decide(visit: Visit, form: Form) -> Answered {
    let approved = match form.get("decision") {
        "approve" => true,
        "reject" => false,
        _ => {
            let error = ApiError::new(Code::BodyInvalid, "say whether you approve");
            let status = status_of(&error);
            let comment = form.get("comment");
            return show_approval(&visit, status, Some(error.into()), comment).await;
        }
    };
    let decide = Decide {
        approved,
        digest: Digest::from_text(form.get("digest")),
        comment: form.given("comment"),
        name: None,
    };
    let route = format!("{}/decide", route(&visit));
    let done: Result<DecidedApproval, ApiError> = visit.post(&route, &form, &decide).await;
    match done {
        Ok(_) => {
            let page = visit.page(&format!("/approvals/{}", visit.part("approval")));
            Ok(Redirect::to(&page).into_response())
        }
        Err(error) => {
            let status = status_of(&error);
            show_approval(&visit, status, Some(error.into()), form.get("comment")).await
        }
    }
}

fn route(visit: &Visit) -> String {
    format!("/v1/approvals/{}", words::encoded(visit.part("approval")))
}

async fn show_approval(
    visit: &Visit,
    status: StatusCode,
    problem: Option<Trouble>,
    comment: &str,
) -> Answered {
    let json = route(visit);
    let approval: Approval = visit.get(&json).await?;
    let command = format!("semel approval show {}", approval.approval);
    let title = format!("{} · {}", approval.flow, approval.step);
    let whole = visit.whole();
    let mut body = vec![forms::section(
        "shown",
        "What is decided about",
        &shown(&approval, &whole),
    )];
    match &approval.decision {
        Some(decision) => body.push(said(visit, decision)),
        None if approval.ended_at.is_none() => {
            let form = decide_form(visit, &approval, comment)?;
            body.push(forms::section(
                "decide",
                "Your decision",
                &form.within("div", "box"),
            ));
        }
        None => {}
    }
    body.push(facts(visit, &approval));
    show_as(
        status,
        &Page {
            shell: Shell::new(visit, "/approvals", &title, &json, &command),
            heading_markup: Markup::text(&title),
            lead_markup: Markup::default(),
            problem,
            body_markup: Markup::join(body),
        },
    )
}

/// What people see: its members one by one, where it has some.
fn shown(approval: &Approval, whole: &Whole) -> Markup {
    let Some(members) = approval.shown.as_object() else {
        return markup::value(&approval.shown, whole);
    };
    let rows: Vec<Vec<Markup>> = members
        .iter()
        .map(|(name, member)| {
            let member = match member.as_str() {
                Some(text) => Markup::text(text),
                None => markup::code(&member.to_string()),
            };
            vec![Markup::text(name), member]
        })
        .collect();
    markup::table("What is decided about", &["Name", "Value"], &rows)
}

fn said(visit: &Visit, decision: &ApprovalDecision) -> Markup {
    let (verb, class) = match decision.approved {
        true => ("Approved", "verdict"),
        false => ("Rejected", "verdict is-bad"),
    };
    let comment = match &decision.comment {
        Some(comment) => format!("“{comment}”"),
        None => String::new(),
    };
    Markup::join([
        Markup::text(&format!("{verb} by {}", decision.by)),
        visit.time(decision.at),
        Markup::text(&comment),
    ])
    .within("p", class)
}

fn facts(visit: &Visit, approval: &Approval) -> Markup {
    let run = approval.run.to_string();
    let time = |at: Option<jiff::Timestamp>| at.map(|at| visit.time(at)).unwrap_or_default();
    let facts = markup::facts(vec![
        ("State", state(approval)),
        (
            "Run",
            markup::code(&run).link(&visit.page(&format!("/runs/{run}"))),
        ),
        ("May be decided by", Markup::text(&approval.from.join(", "))),
        (
            "Not by",
            approval
                .not_by
                .as_deref()
                .map(Markup::text)
                .unwrap_or_default(),
        ),
        ("Asked", visit.time(approval.opened_at)),
        ("Until", time(approval.until)),
        (
            "Digest of what is shown",
            markup::code(
                approval
                    .digest
                    .as_ref()
                    .map_or("", |digest| digest.as_str()),
            ),
        ),
    ]);
    forms::section("about", "About this approval", &facts)
}

fn decide_form(visit: &Visit, approval: &Approval, comment: &str) -> Result<Markup, ApiError> {
    forms::form(
        visit,
        Offer {
            action: visit.page(&format!("/approvals/{}/decide", approval.approval)),
            right: Right::Approve,
            fields: vec![
                forms::carried(
                    "digest",
                    approval
                        .digest
                        .as_ref()
                        .map_or("", |digest| digest.as_str()),
                ),
                // Of several lines: Enter in a single line would press the first button.
                forms::lines(
                    "comment",
                    "Comment (optional)",
                    comment,
                    "It is recorded with your decision.",
                ),
            ],
            buttons: vec![
                Button {
                    label: "Approve",
                    class: "",
                    decision: "approve",
                },
                Button {
                    label: "Reject",
                    class: "danger",
                    decision: "reject",
                },
            ],
        },
    )
}
