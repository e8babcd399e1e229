//! Refused deliveries: what was sent to a hook and started nothing, as far as that is recorded.

use semel_api::types::{Page as Found, RefusedDelivery};
use semel_model::Right;

use super::markup::{self, Markup};
use super::shell::{Shell, keep, next_page, show_list};
use super::visit::Visit;
use super::{empty, forms, runs, words};
use crate::answer::Answered;

/// What the list is filtered by.
const FILTERS: [&str; 4] = ["flow", "code", "since", "until"];

/// `GET /console/{namespace}/refusals`.
pub(super) async fn page(visit: Visit) -> Answered {
    let filter: Vec<(&'static str, &str)> = FILTERS
        .iter()
        .map(|name| (*name, visit.parameter(name)))
        .collect();
    let spelled = runs::spell(&visit, &filter);
    let mut asked: Vec<(&str, &str)> = spelled
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    asked.push(("cursor", visit.parameter("cursor")));
    let json = words::address("/v1/refusals", &asked);
    let mut command = "semel refusal list".to_owned();
    for (name, value) in asked.iter().filter(|(_, value)| !value.is_empty()) {
        words::push_option(&mut command, name, value);
    }
    let shell = Shell::new(&visit, "/duplicates", "Refused deliveries", &json, &command);
    let here = visit.page("/refusals");
    let mut links = vec![Markup::text("Stopped repeats").link(&visit.page("/duplicates"))];
    if filter.iter().any(|(_, value)| !value.is_empty()) {
        links.push(Markup::text("All refused").link(&here));
    }
    let links = Markup::join(links).within("p", "presets");
    let found: Found<RefusedDelivery> = match visit.get(&json).await {
        Ok(found) => found,
        Err(error) => return keep(shell, error, vec![links, narrow(&visit, &filter)]),
    };
    let row = |one: &RefusedDelivery| {
        let of_flow = words::address(&here, &[("flow", &one.flow)]);
        let of_code = words::address(&here, &[("code", &one.code)]);
        vec![
            visit.time(one.at),
            Markup::text(&one.flow).link(&of_flow),
            markup::code(&one.code).link(&of_code),
            one.message.as_deref().map(Markup::text).unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<Markup>> = found.items.iter().map(row).collect();
    let list = match rows.is_empty() {
        true => empty::teach(
            "No such delivery was refused. Recorded are a key that cannot be computed, a body that cannot be read or does not fit, a known key with another payload, and a signature that does not verify.",
            "semel refusal list",
            "docs/triggers.md",
        ),
        false => markup::table(
            "Refused deliveries, the latest first",
            &["When", "Flow", "Error", "What was wrong"],
            &rows,
        ),
    };
    let next = next_page("Older ones", &here, &filter, found.next.as_deref());
    let lead =
        Markup::fixed("What was sent to a hook and started nothing. The sender got the error.");
    let body = [links, narrow(&visit, &filter), list]
        .into_iter()
        .chain(next);
    show_list(shell, lead, body.collect())
}

/// What the list is narrowed by, as a form that asks for the page.
fn narrow(visit: &Visit, filter: &[(&'static str, &str)]) -> Markup {
    let labels = [
        ("Flow", "Such as orders."),
        ("Error", "Its code, such as key-invalid."),
        ("Since", "A time, a day (UTC), or how long ago: 24h."),
        ("Until", "A time, a day (UTC), or how long ago."),
    ];
    let fields = filter.iter().zip(labels);
    let fields = fields.map(|((name, value), (label, help))| {
        forms::line(name, label, markup::offered(value), help)
    });
    let of = (visit.page("/refusals"), Right::Read);
    let form = forms::ask_page(visit, of, fields.collect(), "Show");
    let is_narrowed = filter.iter().any(|(_, value)| !value.is_empty());
    forms::folded("Narrow the list", is_narrowed, &form).within("div", "narrow")
}
