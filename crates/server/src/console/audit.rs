//! The audit record: who did what to what and why, filtered, as a file, and whether its chain holds.

mod chain;
mod export;

pub(super) use chain::page as chain;
pub(super) use export::export;

use semel_api::types::{AuditRecord, Page as Found};
use semel_model::Right;

use super::forms::{self, ask_page, folded};
use super::markup::{self, Markup};
use super::shell::{Page, Shell, keep, next_page, show, show_list};
use super::visit::Visit;
use super::{runs, words};
use crate::answer::Answered;

/// What the record is filtered by: parameters of the page, of the API and of the command alike.
const FILTERS: [&str; 5] = ["actor", "action", "subject", "since", "until"];

/// What was asked for, by the names of [`FILTERS`].
fn filter(visit: &Visit) -> Vec<(&'static str, &str)> {
    let named = FILTERS.iter();
    named.map(|name| (*name, visit.parameter(name))).collect()
}

/// The command for what was asked for.
fn command(verb: &str, asked: &[(&str, &str)]) -> String {
    let mut command = format!("semel audit {verb}");
    for (name, value) in asked.iter().filter(|(_, value)| !value.is_empty()) {
        words::push_option(&mut command, name, value);
    }
    command
}

/// What who may not audit sees.
fn refuse(shell: Shell, missing: &str) -> Answered {
    let lead = Markup::fixed("What operators did is for who audits this namespace.");
    let missing = Markup::text(missing).within("p", "empty");
    show_list(shell, lead, vec![missing])
}

/// `GET /console/{namespace}/audit`.
pub(super) async fn page(visit: Visit) -> Answered {
    let filter = filter(&visit);
    let spelled = runs::spell(&visit, &filter);
    let mut asked: Vec<(&str, &str)> = spelled
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    asked.push(("cursor", visit.parameter("cursor")));
    let json = words::address("/v1/audit", &asked);
    let shell = Shell::new(&visit, "/audit", "Audit", &json, &command("list", &asked));
    if let Some(missing) = visit.lacks(Right::Audit) {
        return refuse(shell, &missing);
    }
    let above = vec![links(&visit, &filter), form(&visit, &filter)];
    let found: Found<AuditRecord> = match visit.get(&json).await {
        Ok(found) => found,
        Err(error) => return keep(shell, error, above),
    };
    let rows: Vec<Vec<Markup>> = found.items.iter().map(|act| row(&visit, act)).collect();
    let columns = ["When", "Who", "What", "Of", "Why", "Sealed"];
    let mut body = above;
    body.push(match rows.is_empty() {
        true => Markup::text("Nothing is recorded for this search.").within("p", "empty"),
        false => markup::table("What operators did, the latest first", &columns, &rows),
    });
    let here = visit.page("/audit");
    let next = found.next.as_deref();
    body.extend(next_page("Older acts", &here, &filter, next));
    show(&Page {
        shell,
        heading_markup: Markup::fixed("Audit"),
        lead_markup: Markup::fixed(
            "What operators did, by whom and why. Nothing of it can be changed.",
        ),
        problem: None,
        body_markup: Markup::join(body),
    })
}

fn row(visit: &Visit, act: &AuditRecord) -> Vec<Markup> {
    let subject = match act.run {
        Some(run) => markup::code(&act.subject).link(&visit.page(&format!("/runs/{run}"))),
        None => {
            let of = words::address(&visit.page("/audit"), &[("subject", &act.subject)]);
            markup::code(&act.subject).link(&of)
        }
    };
    let by = words::address(&visit.page("/audit"), &[("actor", &act.actor)]);
    let what = words::address(&visit.page("/audit"), &[("action", &act.action)]);
    vec![
        visit.time(act.at),
        Markup::text(&act.actor).link(&by),
        Markup::text(&act.action).link(&what),
        subject,
        Markup::text(act.reason.as_deref().unwrap_or("-")),
        match act.position {
            Some(position) => Markup::text(&format!("no. {position}")),
            None => Markup::fixed("not yet"),
        },
    ]
}

/// Leads to the same as a file, and to the check of the chain.
fn links(visit: &Visit, filter: &[(&str, &str)]) -> Markup {
    let file = |format: &'static str| {
        let form = [("format", format)];
        let asked: Vec<(&str, &str)> = form.iter().chain(filter).copied().collect();
        words::address(&visit.page("/audit/export"), &asked)
    };
    let links = [
        Markup::text("As CSV").link(&file("csv")),
        Markup::text("As JSON").link(&file("json")),
        Markup::text("Check the chain").link(&visit.page("/audit/chain")),
    ];
    Markup::join(links).within("p", "presets")
}

fn form(visit: &Visit, filter: &[(&str, &str)]) -> Markup {
    let value = |name: &str| {
        let found = filter.iter().find(|(known, _)| *known == name);
        found.map_or("", |(_, value)| markup::offered(value))
    };
    let fields = vec![
        forms::line("actor", "Who", value("actor"), "Such as token:ci."),
        forms::line("action", "What", value("action"), "Such as flow.promote."),
        forms::line(
            "subject",
            "Of what",
            value("subject"),
            "Such as eff_…, or the name of a flow.",
        ),
        forms::line(
            "since",
            "Since",
            value("since"),
            "A time, a day (UTC), or how long ago: 24h.",
        ),
        forms::line(
            "until",
            "Until",
            value("until"),
            "A time, a day (UTC), or how long ago.",
        ),
    ];
    let to = (visit.page("/audit"), Right::Audit);
    let is_filtered = filter.iter().any(|(_, value)| !value.is_empty());
    let form = ask_page(visit, to, fields, "Find");
    folded("Filter", is_filtered, &form).within("div", "acts")
}
