//! Events: what runs emitted, who received each, and the runs that they started.

use semel_api::types::{DeliveryState, Effect, EmittedEvent, EventDetail, Page as Found};

use super::forms::section;
use super::jobs::run_link;
use super::markup::{self, Markup};
use super::named_runs::NamedRuns;
use super::shell::{Page, Shell, keep, next_page, show, show_list};
use super::visit::Visit;
use super::{effects, empty, words};
use crate::answer::Answered;
use crate::events::EMIT;

/// How many events a page has.
const PAGE: &str = "50";

/// How many events the page of a run shows.
const EVENTS_MAX: usize = 50;

/// `GET /console/{namespace}/events`.
pub(super) async fn page(visit: Visit) -> Answered {
    let cursor = visit.parameter("cursor");
    let json = words::address("/v1/events", &[("limit", PAGE), ("cursor", cursor)]);
    let command = format!("semel api GET {}", words::shell_word(&json));
    let shell = Shell::new(&visit, "/subscriptions", "Events", &json, &command);
    let found: Found<EmittedEvent> = match visit.get(&json).await {
        Ok(found) => found,
        Err(error) => return keep(shell, error, vec![switch(&visit, true)]),
    };
    let rows: Vec<Vec<Markup>> = found.items.iter().map(|it| row(&visit, it)).collect();
    let columns = ["Event", "Emitted", "By the flow", "Key", "State"];
    let list = match (rows.is_empty(), &found.next) {
        (true, None) => empty::teach(
            "No run has emitted an event. A step of the kind emit does; other flows take it with an event trigger, and webhooks by a subscription.",
            "semel subscription create NAME --help",
            "docs/events.md",
        ),
        (true, Some(_)) => {
            Markup::text("Among the newest effects there is no event. Older ones may have some.")
                .within("p", "empty")
        }
        (false, _) => markup::table("Events, the newest first", &columns, &rows),
    };
    let here = visit.page("/events");
    let next = next_page("Older events", &here, &[], found.next.as_deref());
    let lead = Markup::fixed("What runs emitted. Every receiver gets an event under one id.");
    let body = [switch(&visit, true), list].into_iter().chain(next);
    show_list(shell, lead, body.collect())
}

/// Leads from events to subscriptions and back.
pub(super) fn switch(visit: &Visit, at_events: bool) -> Markup {
    let one = |name: &str, path: &str, is_here: bool| match is_here {
        true => Markup::text(name).within("strong", "preset"),
        false => Markup::text(name).link(&visit.page(path)),
    };
    let links = [
        one("Subscriptions", "/subscriptions", !at_events),
        one("Events", "/events", at_events),
    ];
    Markup::join(links).within("p", "presets")
}

fn row(visit: &Visit, event: &EmittedEvent) -> Vec<Markup> {
    let page = visit.page(&format!("/events/{}", event.id));
    let name = event.event.as_deref().unwrap_or(&event.step);
    let run = visit.page(&format!("/runs/{}", event.run));
    let source = event.source.as_ref();
    vec![
        markup::code(name).link(&page),
        visit.time(event.emitted_at),
        source.map(|it| Markup::text(&it.flow)).unwrap_or_default(),
        match source {
            Some(source) => markup::code(&source.key).link(&run),
            None => markup::code(&event.run.to_string()).link(&run),
        },
        markup::effect_state(event.state),
    ]
}

/// The events among the effects of a run, each with the page that says who received it; nothing where there
/// are none.
pub(super) fn of_run(visit: &Visit, effects: &[Effect]) -> Markup {
    let emitted: Vec<&Effect> = effects.iter().filter(|it| it.kind == EMIT).collect();
    let row = |event: &&Effect| {
        vec![
            markup::code(&event.step),
            markup::effect_state(event.state),
            visit.time(event.intended_at),
            effects::receivers(visit, event),
        ]
    };
    if emitted.is_empty() {
        return Markup::default();
    }
    let rows: Vec<Vec<Markup>> = emitted.iter().take(EVENTS_MAX).map(row).collect();
    let columns = ["Step", "State", "Emitted", "Receivers"];
    let more = (emitted.len() > EVENTS_MAX).then(|| {
        let more = "There are more: the effects of this run have all of them.";
        Markup::fixed(more).within("p", "help")
    });
    let table = markup::table("Events that this run emitted", &columns, &rows);
    Markup::join([table].into_iter().chain(more))
}

/// `GET /console/{namespace}/events/{event}`.
pub(super) async fn show_one(visit: Visit) -> Answered {
    let json = format!("/v1/events/{}", words::encoded(visit.part("event")));
    let found: EventDetail = visit.get(&json).await?;
    let event = &found.event;
    let name = event.event.as_deref().unwrap_or(&event.step);
    let source = event.source.as_ref();
    let started = found.flows.iter().filter_map(|it| it.run).collect();
    let named = NamedRuns::of(&visit, started).await?;
    let facts = markup::facts(vec![
        ("Event", markup::code(name)),
        ("State", markup::effect_state(event.state)),
        ("Emitted", visit.time(event.emitted_at)),
        (
            "By the flow",
            source.map(|it| Markup::text(&it.flow)).unwrap_or_default(),
        ),
        ("By the step", markup::code(&event.step)),
        ("Run", run_link(&visit, event.run)),
        ("Id of the event", markup::code(&event.id.to_string())),
    ]);
    let body = [
        facts,
        section(
            "flows",
            "Flows that take it",
            &flows(&visit, &found, &named),
        ),
        section(
            "webhooks",
            "Webhooks that are subscribed",
            &webhooks(&visit, &found),
        ),
    ];
    let runs = found.flows.iter().filter(|it| it.run.is_some()).count();
    let lead = format!(
        "{} from it, and {} it.",
        words::count(runs, "run was started", "runs were started"),
        words::count(
            found.deliveries.len(),
            "webhook receives",
            "webhooks receive"
        )
    );
    let command = format!("semel api GET {}", words::shell_word(&json));
    show(&Page {
        shell: Shell::new(&visit, "/subscriptions", name, &json, &command),
        heading_markup: markup::code(name),
        lead_markup: Markup::text(&lead),
        problem: None,
        body_markup: Markup::join(body),
    })
}

fn flows(visit: &Visit, found: &EventDetail, named: &NamedRuns) -> Markup {
    let row = |one: &semel_api::types::EventTaker| {
        let page = visit.page(&format!("/flows/{}", words::encoded(&one.flow)));
        let run = match (one.run, one.has_own_key) {
            (Some(run), _) => named.link(visit, run),
            (None, true) => Markup::fixed("under a key of the flow's own"),
            (None, false) => Markup::fixed("none"),
        };
        vec![Markup::text(&one.flow).link(&page), run]
    };
    let rows: Vec<Vec<Markup>> = found.flows.iter().map(row).collect();
    match rows.is_empty() {
        true => Markup::text("No live release has a trigger for it.").within("p", "empty"),
        false => markup::table("Flows that take it", &["Flow", "Key of the run"], &rows),
    }
}

fn webhooks(visit: &Visit, found: &EventDetail) -> Markup {
    let row = |one: &semel_api::types::EventDelivery| {
        let page = visit.page(&format!(
            "/subscriptions/{}",
            words::encoded(&one.subscription)
        ));
        let state = match one.state {
            DeliveryState::Due => markup::other_state("rest", "◔", "due"),
            DeliveryState::Delivered => markup::other_state("good", "●", "delivered"),
            DeliveryState::Failed => markup::other_state("bad", "■", "failed"),
        };
        let at = one.settled_at.or(one.due_at);
        vec![
            state,
            Markup::text(&one.subscription).link(&page),
            Markup::text(&one.attempt.to_string()),
            at.map(|at| visit.time(at)).unwrap_or_default(),
            one.note.as_deref().map(Markup::text).unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<Markup>> = found.deliveries.iter().map(row).collect();
    let columns = ["State", "Subscription", "Attempts", "When", "Seen"];
    match rows.is_empty() {
        true => Markup::text("No subscription took it.").within("p", "empty"),
        false => markup::table("Deliveries", &columns, &rows),
    }
}
