//! The overview: what waits for you, whether runs flow, what was saved, and whether the servers are well.

mod figures;

use askama::Template;
use jiff::Timestamp;
use semel_api::types::{NamespaceHealth, Overview as Found, Page, Run, WaitingCount};

use self::figures::Asked;
use super::markup::{Markup, other_state};
use super::shell::{Shell, keep, show};
use super::visit::Visit;
use super::words;
use crate::answer::Answered;
use crate::live::Topic;

/// How far counts go.
const COUNT_MAX: usize = 50;

/// How many of the newest runs are shown.
const NEWEST: usize = 8;

/// For how long a run may have been due before that is worth a look, in seconds.
const LATE_SECS: i64 = 60;

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    shell: Shell,
    waiting: Vec<Waiting>,
    figures: String,
    figures_markup: Markup,
    health: Vec<Light>,
    newest_markup: Markup,
}

/// Something that waits for people.
struct Waiting {
    href: String,
    count: String,
    what: &'static str,
    class: &'static str,
    shape: &'static str,
    oldest_markup: Markup,
}

/// One answer to whether the machine is well.
struct Light {
    what: &'static str,
    state_markup: Markup,
    more_markup: Markup,
}

/// `GET /console/{namespace}/`.
pub(super) async fn page(visit: Visit) -> Answered {
    let following = visit.follow(Topic::Overview).await;
    let shell = Shell::new(
        &visit,
        "",
        "Overview",
        "/v1/overview",
        "semel api GET /v1/overview",
    )
    .following(following);
    let newest: Page<Run> = visit.get(&format!("/v1/runs?limit={NEWEST}")).await?;
    let limit = COUNT_MAX + 1;
    let active: Page<Run> = visit
        .get(&format!("/v1/runs?state=active&limit={limit}"))
        .await?;
    let found: Found = visit.get("/v1/overview").await?;
    let asked = Asked::of(&visit);
    let choices = asked.choices(&visit, newest.items.iter().chain(&active.items));
    let figures_markup = match asked.draw(&visit).await {
        Ok(drawn) => Markup::join([choices, drawn]),
        Err(error) => return keep(shell, error, vec![choices, asked.form(&visit)]),
    };
    show(&Overview {
        waiting: waiting(&visit, &found.waiting),
        figures: asked.heading(),
        figures_markup,
        health: health(&visit, &found, &active),
        newest_markup: match newest.items.is_empty() {
            true => super::runs::none_yet(),
            false => super::runs::table(&visit, "The newest runs", &newest.items),
        },
        shell,
    })
}

/// What waits for people, with the page that shows it.
fn waiting(visit: &Visit, found: &[WaitingCount]) -> Vec<Waiting> {
    let kinds = [
        (
            "doubt",
            "/doubts",
            ["effect in doubt", "effects in doubt"],
            ("doubt", "◆"),
        ),
        (
            "approval",
            "/approvals",
            ["approval to decide", "approvals to decide"],
            ("rest", "◔"),
        ),
        (
            "needs_review",
            "/runs?q=state:needs_review",
            ["run that needs review", "runs that need review"],
            ("doubt", "▲"),
        ),
        (
            "quarantined",
            "/runs?q=state:quarantined",
            ["run in quarantine", "runs in quarantine"],
            ("doubt", "▲"),
        ),
        (
            "held",
            "/duplicates?held=yes",
            ["held delivery", "held deliveries"],
            ("doubt", "▲"),
        ),
        (
            "pause",
            "/flows",
            [
                "pause of a flow or connection",
                "pauses of flows or connections",
            ],
            ("rest", "◔"),
        ),
    ];
    let entries = kinds.into_iter().filter_map(|(kind, path, words, look)| {
        let one = found.iter().find(|it| it.what == kind)?;
        let (class, shape) = look;
        Some(Waiting {
            href: visit.page(path),
            count: or_more(one.count, one.has_more),
            what: words[usize::from(one.count != 1)],
            class,
            shape,
            oldest_markup: one.since.map_or_else(Markup::default, |at| visit.time(at)),
        })
    });
    entries.collect()
}

fn or_more(count: i64, has_more: bool) -> String {
    match has_more {
        true => format!("{count}+"),
        false => count.to_string(),
    }
}

/// Whether the machine is well: who serves, what is late, what is open and what was turned away.
fn health(visit: &Visit, found: &Found, active: &Page<Run>) -> Vec<Light> {
    vec![
        servers(visit, &found.health),
        in_flight(visit, active),
        due(visit, &found.health),
        doubts(visit, &found.waiting),
        refused(visit, &found.health),
        undelivered(visit, &found.health),
    ]
}

fn servers(visit: &Visit, health: &NamespaceHealth) -> Light {
    let count = |count: i64| usize::try_from(count).unwrap_or_default();
    let alive = words::count(count(health.servers), "server", "servers");
    let late = words::count(
        count(health.late_services),
        "service is late",
        "services are late",
    );
    let (class, shape, word) = match (health.servers, health.late_services) {
        (0, _) => ("bad", "■", "no server holds a lease".to_owned()),
        (_, 0) => ("good", "●", format!("{alive} alive")),
        (_, _) => ("doubt", "▲", format!("{alive} alive, {late}")),
    };
    Light {
        what: "Servers",
        state_markup: other_state(class, shape, &word),
        more_markup: Markup::fixed("Who they are").link(&visit.page("/servers")),
    }
}

fn in_flight(visit: &Visit, active: &Page<Run>) -> Light {
    // The search for them ends after some thousands of runs: behind those there may be more.
    let more = active.next.is_some() && active.items.len() <= COUNT_MAX;
    let count = match more {
        true => format!("{}+", active.items.len()),
        false => words::at_most(active.items.len(), COUNT_MAX),
    };
    let href = words::address(&visit.page("/runs"), &[("q", "state:active")]);
    Light {
        what: "In flight",
        state_markup: match count.as_str() {
            "0" => other_state("quiet", "○", "no run"),
            "1" => other_state("live", "▶", "1 run"),
            count => other_state("live", "▶", &format!("{count} runs")),
        },
        more_markup: Markup::fixed("Which").link(&href),
    }
}

fn due(visit: &Visit, health: &NamespaceHealth) -> Light {
    let state_markup = match (health.due, health.due_since) {
        (1.., Some(since)) => {
            let late = visit.now.as_second() - since.as_second() > LATE_SECS;
            let (class, shape) = if late {
                ("doubt", "▲")
            } else {
                ("good", "●")
            };
            let count = or_more(health.due, health.has_more_due);
            let word = if count == "1" { "run" } else { "runs" };
            other_state(class, shape, &format!("{count} {word} due"))
        }
        _ => other_state("good", "●", "nothing is late"),
    };
    let oldest = health.due_since.map(|since| {
        let word = Markup::fixed("the first was due");
        Markup::join([word, visit.time(since)])
    });
    Light {
        what: "Waiting for a server",
        state_markup,
        more_markup: oldest.unwrap_or_else(|| Markup::fixed("no run waits for a server")),
    }
}

fn doubts(visit: &Visit, waiting: &[WaitingCount]) -> Light {
    let open = waiting.iter().find(|it| it.what == "doubt");
    let (state_markup, more_markup) = match open {
        Some(open) => {
            let count = or_more(open.count, open.has_more);
            let oldest = open.since.map(|since| {
                let word = Markup::fixed("the oldest is from");
                Markup::join([word, visit.time(since)])
            });
            let state = other_state("doubt", "◆", &format!("{count} open"));
            (state, oldest.unwrap_or_default())
        }
        None => (
            other_state("good", "●", "none open"),
            Markup::fixed("every outcome is known"),
        ),
    };
    Light {
        what: "Doubts",
        state_markup,
        more_markup: more_markup.link(&visit.page("/doubts")),
    }
}

fn refused(visit: &Visit, health: &NamespaceHealth) -> Light {
    let count = or_more(health.refused, health.has_more_refused);
    let what = "Refused deliveries";
    of_a_day(visit, what, (count, health.refused_at), "/refusals")
}

fn undelivered(visit: &Visit, health: &NamespaceHealth) -> Light {
    let count = or_more(health.undelivered, health.has_more_undelivered);
    let what = "Failed deliveries of events";
    of_a_day(
        visit,
        what,
        (count, health.undelivered_at),
        "/subscriptions",
    )
}

/// What should not happen, as far as it did in the last 24 hours.
fn of_a_day(
    visit: &Visit,
    what: &'static str,
    (count, latest): (String, Option<Timestamp>),
    page: &str,
) -> Light {
    let (state_markup, more) = match latest {
        Some(at) => {
            let state = other_state("doubt", "▲", &format!("{count} in 24 h"));
            let latest = Markup::join([Markup::fixed("the latest"), visit.time(at)]);
            (state, latest)
        }
        None => (
            other_state("good", "●", "none in 24 h"),
            Markup::fixed("those before"),
        ),
    };
    Light {
        what,
        state_markup,
        more_markup: more.link(&visit.page(page)),
    }
}
