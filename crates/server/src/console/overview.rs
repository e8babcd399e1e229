//! The overview: what waits for you, whether runs flow, and what was saved.

use askama::Template;
use semel_api::types::{Overview as Waiters, Page, Run, Tallies};

use super::markup::Markup;
use super::shell::{Shell, show};
use super::visit::Visit;
use super::words;
use crate::answer::Answered;
use crate::error::ApiError;
use crate::live::Topic;

/// How far counts go.
const COUNT_MAX: usize = 50;

/// How many of the newest runs are shown.
const NEWEST: usize = 8;

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    shell: Shell,
    waiting: Vec<Waiting>,
    flowing: Figure,
    counted: Vec<Figure>,
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

/// A figure, with what it counts.
struct Figure {
    number: String,
    what: String,
}

/// `GET /console/{namespace}/`.
pub(super) async fn page(visit: Visit) -> Answered {
    let following = visit.follow(Topic::Overview).await;
    let shell = Shell::new(
        &visit,
        "",
        "Overview",
        "/v1/runs?limit=8",
        "semel run list --limit 8",
    )
    .following(following);
    let newest: Page<Run> = visit.get(&format!("/v1/runs?limit={NEWEST}")).await?;
    let limit = COUNT_MAX + 1;
    let active: Page<Run> = visit
        .get(&format!("/v1/runs?state=active&limit={limit}"))
        .await?;
    // The search for them ends after some thousands of runs: behind those there may be more.
    let more = active.next.is_some() && active.items.len() <= COUNT_MAX;
    let tallies: Tallies = visit.get("/v1/tallies").await?;
    show(&Overview {
        waiting: waiting(&visit).await?,
        flowing: Figure {
            number: match more {
                true => format!("{}+", active.items.len()),
                false => words::at_most(active.items.len(), COUNT_MAX),
            },
            what: "runs in flight".to_owned(),
        },
        counted: counted(&tallies),
        newest_markup: super::runs::table(&visit, "The newest runs", &newest.items),
        shell,
    })
}

/// What waits for people, with the page that shows it.
async fn waiting(visit: &Visit) -> Result<Vec<Waiting>, ApiError> {
    let found: Waiters = visit.get("/v1/overview").await?;
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
        let one = found.waiting.iter().find(|it| it.what == kind)?;
        let (class, shape) = look;
        Some(Waiting {
            href: visit.page(path),
            count: match one.has_more {
                true => format!("{}+", one.count),
                false => one.count.to_string(),
            },
            what: words[usize::from(one.count != 1)],
            class,
            shape,
            oldest_markup: one.since.map_or_else(Markup::default, |at| visit.time(at)),
        })
    });
    Ok(entries.collect())
}

/// What happened in the last day, of all flows together.
fn counted(tallies: &Tallies) -> Vec<Figure> {
    let figures = [
        ("accepted", "runs started"),
        ("succeeded", "runs succeeded"),
        ("failed", "runs failed"),
        ("repeat", "repeats answered without a second effect"),
        ("mismatch", "repeats with another payload"),
        ("stale", "deliveries that came too late"),
    ];
    let figures = figures.into_iter().map(|(kind, what)| {
        let same = tallies.items.iter().filter(|it| it.what == kind);
        Figure {
            number: same.map(|it| it.count).sum::<i64>().to_string(),
            what: what.to_owned(),
        }
    });
    figures.collect()
}
