//! Refused deliveries: what was sent to a hook and started nothing, as far as that is recorded.

use semel_api::types::{Page as Found, RefusedDelivery};

use super::markup::{self, Markup};
use super::shell::{Shell, keep, next_page, show_list};
use super::visit::Visit;
use super::{empty, words};
use crate::answer::Answered;

/// What the list is filtered by.
const FILTERS: [&str; 4] = ["flow", "code", "since", "until"];

/// `GET /console/{namespace}/refusals`.
pub(super) async fn page(visit: Visit) -> Answered {
    let filter: Vec<(&str, &str)> = FILTERS
        .iter()
        .map(|name| (*name, visit.parameter(name)))
        .collect();
    let mut asked = filter.clone();
    asked.push(("cursor", visit.parameter("cursor")));
    let json = words::address("/v1/refusals", &asked);
    let mut command = "semel refusal list".to_owned();
    for (name, value) in asked.iter().filter(|(_, value)| !value.is_empty()) {
        command.push_str(&format!(" --{name} {}", words::shell_word(value)));
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
        Err(error) => return keep(shell, error, vec![links]),
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
    let body = [links, list].into_iter().chain(next);
    show_list(shell, lead, body.collect())
}
