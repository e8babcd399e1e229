//! Subscriptions: webhooks that receive events, and what came of their deliveries.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect};
use semel_api::types::{Delivery, DeliveryState, Page as Found, RetriedDelivery, Subscription};
use semel_model::Right;
use serde_json::json;

use super::events::switch;
use super::forms::{offer, section};
use super::markup::{self, Markup};
use super::shell::{Page, Shell, Trouble, next_page, show_as, show_list, status_of};
use super::visit::{Form, Visit};
use super::{empty, words};
use crate::answer::Answered;
use crate::error::ApiError;

/// How many deliveries a page has.
const PAGE: &str = "50";

/// Lists that are often asked for.
const PRESETS: &[(&str, &str)] = &[
    ("All", ""),
    ("Due", "due"),
    ("Delivered", "delivered"),
    ("Failed", "failed"),
];

/// `GET /console/{namespace}/subscriptions`.
pub(super) async fn page(visit: Visit) -> Answered {
    let json = "/v1/subscriptions";
    let found: Found<Subscription> = visit.get(json).await?;
    let row = |one: &Subscription| {
        let page = visit.page(&format!("/subscriptions/{}", words::encoded(&one.name)));
        let to = visit.page(&format!("/connections/{}", words::encoded(&one.connection)));
        let failed = words::address(&page, &[("state", "failed")]);
        vec![
            markup::code(&one.name).link(&page),
            markup::code(&one.event),
            Markup::text(&one.connection).link(&to),
            Markup::text(&one.due.to_string()),
            Markup::fixed("which failed").link(&failed),
            visit.time(one.created_at),
        ]
    };
    let rows: Vec<Vec<Markup>> = found.items.iter().map(row).collect();
    let columns = ["Name", "Event", "Connection", "Due", "Deliveries", "Made"];
    let body = match rows.is_empty() {
        true => empty::teach(
            "Nothing is subscribed. A step of the kind emit makes events. A subscription delivers them to a webhook; a flow with an event trigger takes them without one.",
            "semel subscription create NAME --help",
            "docs/events.md",
        ),
        false => markup::table("Subscriptions", &columns, &rows),
    };
    let shell = Shell::new(
        &visit,
        "/subscriptions",
        "Events and subscriptions",
        json,
        "semel subscription list",
    );
    let lead = Markup::fixed("Who receives the events that flows emit, each under one id.");
    show_list(shell, lead, vec![switch(&visit, false), body])
}

/// `GET /console/{namespace}/subscriptions/{name}`.
pub(super) async fn show_one(visit: Visit) -> Answered {
    show_subscription(&visit, StatusCode::OK, None).await
}

/// `POST /console/{namespace}/subscriptions/{name}/deliveries/{event}/retry`.
pub(super) async fn retry(visit: Visit, form: Form) -> Answered {
    let event = words::encoded(visit.part("event"));
    let address = format!("{}/deliveries/{event}/retry", route(&visit));
    let done: Result<RetriedDelivery, ApiError> = visit.post(&address, &form, &json!({})).await;
    match done {
        Ok(_) => {
            let name = words::encoded(visit.part("name"));
            let page = visit.page(&format!("/subscriptions/{name}"));
            Ok(Redirect::to(&page).into_response())
        }
        Err(error) => {
            let status = status_of(&error);
            show_subscription(&visit, status, Some(error.into())).await
        }
    }
}

fn route(visit: &Visit) -> String {
    format!("/v1/subscriptions/{}", words::encoded(visit.part("name")))
}

async fn show_subscription(
    visit: &Visit,
    status: StatusCode,
    problem: Option<Trouble>,
) -> Answered {
    let json = route(visit);
    let found: Subscription = visit.get(&json).await?;
    let (state, cursor) = (visit.parameter("state"), visit.parameter("cursor"));
    let asked = [("state", state), ("limit", PAGE), ("cursor", cursor)];
    let listed = words::address(&format!("{json}/deliveries"), &asked);
    let deliveries: Found<Delivery> = visit.get(&listed).await?;
    let links = PRESETS.iter().map(|(name, preset)| {
        let page = visit.page(&format!("/subscriptions/{}", words::encoded(&found.name)));
        let href = words::address(&page, &[("state", preset)]);
        match *preset == state {
            true => Markup::text(name).within("strong", "preset"),
            false => Markup::text(name).link(&href),
        }
    });
    let mut parts = vec![Markup::join(links).within("p", "presets")];
    parts.push(table(visit, &found, &deliveries.items)?);
    parts.extend(next_page(
        "Older deliveries",
        "",
        &[("state", state)],
        deliveries.next.as_deref(),
    ));
    let to = visit.page(&format!(
        "/connections/{}",
        words::encoded(&found.connection)
    ));
    let facts = markup::facts(vec![
        ("Event", markup::code(&found.event)),
        ("Connection", Markup::text(&found.connection).link(&to)),
        ("Due", Markup::text(&found.due.to_string())),
        ("Made", visit.time(found.created_at)),
    ]);
    let body = [
        facts,
        section("deliveries", "Deliveries", &Markup::join(parts)),
    ];
    let command = format!("semel subscription show {}", words::shell_word(&found.name));
    show_as(
        status,
        &Page {
            shell: Shell::new(visit, "/subscriptions", &found.name, &json, &command),
            heading_markup: markup::code(&found.name),
            lead_markup: Markup::default(),
            problem,
            body_markup: Markup::join(body),
        },
    )
}

fn table(
    visit: &Visit,
    subscription: &Subscription,
    deliveries: &[Delivery],
) -> Result<Markup, ApiError> {
    if deliveries.is_empty() {
        return Ok(Markup::text("There is no such delivery.").within("p", "empty"));
    }
    let mut rows = Vec::new();
    for one in deliveries {
        let name = words::encoded(&subscription.name);
        let retry = visit.page(&format!(
            "/subscriptions/{name}/deliveries/{}/retry",
            one.id
        ));
        rows.push(vec![
            state(one.state),
            markup::code(&one.event),
            Markup::text(&one.attempt.to_string()),
            visit.time(one.emitted_at),
            one.due_at.map(|at| visit.time(at)).unwrap_or_default(),
            one.note.as_deref().map(Markup::text).unwrap_or_default(),
            match one.state {
                DeliveryState::Failed => offer(
                    visit,
                    (retry, Right::Operate),
                    vec![],
                    ("Try again", "plain"),
                )?,
                DeliveryState::Due | DeliveryState::Delivered => Markup::default(),
            },
            markup::code(&one.id.to_string()),
        ]);
    }
    let columns = [
        "State", "Event", "Attempts", "Emitted", "Next try", "Seen", "Act", "Id",
    ];
    Ok(markup::table(
        "Deliveries, the latest first",
        &columns,
        &rows,
    ))
}

fn state(state: DeliveryState) -> Markup {
    match state {
        DeliveryState::Due => markup::other_state("rest", "◔", "due"),
        DeliveryState::Delivered => markup::other_state("good", "●", "delivered"),
        DeliveryState::Failed => markup::other_state("bad", "■", "failed"),
    }
}
