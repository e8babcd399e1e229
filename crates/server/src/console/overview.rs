//! The overview: what waits for you, whether runs flow, and what was saved.

use askama::Template;
use jiff::Timestamp;
use semel_api::types::{Approval, Duplicate, Effect, Page, Pause, Run};

use super::markup::Markup;
use super::shell::{Shell, show};
use super::visit::Visit;
use super::words;
use crate::answer::Answered;
use crate::error::ApiError;

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
    saved: Vec<Figure>,
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
    let shell = Shell::new(
        &visit,
        "",
        "Overview",
        "/v1/runs?limit=8",
        "semel run list --limit 8",
    );
    let newest: Page<Run> = visit.get(&format!("/v1/runs?limit={NEWEST}")).await?;
    let limit = COUNT_MAX + 1;
    let active: Page<Run> = visit
        .get(&format!("/v1/runs?state=active&limit={limit}"))
        .await?;
    // The search for them ends after some thousands of runs: behind those there may be more.
    let more = active.next.is_some() && active.items.len() <= COUNT_MAX;
    let duplicates = list::<Duplicate>(&visit, "/v1/duplicates?without_payloads=true").await?;
    show(&Overview {
        waiting: waiting(&visit).await?,
        flowing: Figure {
            number: match more {
                true => format!("{}+", active.items.len()),
                false => words::at_most(active.items.len(), COUNT_MAX),
            },
            what: "runs in flight".to_owned(),
        },
        saved: saved(&duplicates),
        newest_markup: super::runs::table(&visit, "The newest runs", &newest.items),
        shell,
    })
}

/// One more than is counted, so that more can be told.
async fn list<T: serde::de::DeserializeOwned>(
    visit: &Visit,
    address: &str,
) -> Result<Vec<T>, ApiError> {
    let sign = if address.contains('?') { '&' } else { '?' };
    let limit = COUNT_MAX + 1;
    let page: Page<T> = visit.get(&format!("{address}{sign}limit={limit}")).await?;
    Ok(page.items)
}

async fn waiting(visit: &Visit) -> Result<Vec<Waiting>, ApiError> {
    let doubts = list::<Effect>(visit, "/v1/doubts").await?;
    let approvals = list::<Approval>(visit, "/v1/approvals").await?;
    let review = list::<Run>(visit, "/v1/runs?state=needs_review").await?;
    let quarantined = list::<Run>(visit, "/v1/runs?state=quarantined").await?;
    let held = list::<Duplicate>(visit, "/v1/duplicates?held=true&without_payloads=true").await?;
    let pauses: Page<Pause> = visit.get("/v1/pauses").await?;
    let entry = |path: &str, times: Vec<Timestamp>, [one, more]: [_; 2], (class, shape)| Waiting {
        href: visit.page(path),
        count: words::at_most(times.len(), COUNT_MAX),
        what: if times.len() == 1 { one } else { more },
        class,
        shape,
        oldest_markup: match times.iter().min() {
            Some(oldest) => visit.time(*oldest),
            None => Markup::default(),
        },
    };
    let times = |runs: &[Run]| runs.iter().map(|run| run.accepted_at).collect();
    let mut all = vec![
        entry(
            "/doubts",
            doubts.iter().map(|it| it.intended_at).collect(),
            ["effect in doubt", "effects in doubt"],
            ("doubt", "◆"),
        ),
        entry(
            "/approvals",
            approvals.iter().map(|it| it.opened_at).collect(),
            ["approval to decide", "approvals to decide"],
            ("rest", "◔"),
        ),
        entry(
            "/runs?q=state:needs_review",
            times(&review),
            ["run that needs review", "runs that need review"],
            ("doubt", "▲"),
        ),
        entry(
            "/runs?q=state:quarantined",
            times(&quarantined),
            ["run in quarantine", "runs in quarantine"],
            ("doubt", "▲"),
        ),
        entry(
            "/duplicates?held=yes",
            held.iter().map(|it| it.first_at).collect(),
            ["held delivery", "held deliveries"],
            ("doubt", "▲"),
        ),
        entry(
            "/flows",
            pauses.items.iter().map(|it| it.since).collect(),
            [
                "pause of a flow or connection",
                "pauses of flows or connections",
            ],
            ("rest", "◔"),
        ),
    ];
    all.retain(|entry| entry.count != "0");
    Ok(all)
}

/// What the duplicates of late came to.
fn saved(duplicates: &[Duplicate]) -> Vec<Figure> {
    let sum = |verdict: &str| -> i64 {
        let same = duplicates.iter().filter(|it| it.verdict == verdict);
        same.map(|it| it.count).sum()
    };
    let more = if duplicates.len() > COUNT_MAX {
        "+"
    } else {
        ""
    };
    let figures = [
        (sum("repeat"), "repeats answered without a second effect"),
        (sum("mismatch"), "repeats with another payload"),
        (sum("stale"), "deliveries that came too late"),
    ];
    let figures = figures.into_iter().map(|(number, what)| Figure {
        number: format!("{number}{more}"),
        what: what.to_owned(),
    });
    figures.collect()
}
