//! Runs: found by key, state and flow, newest first.

use axum::response::{IntoResponse, Redirect};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use semel_api::types::{Page, Run, RunStatus};
use semel_model::{EffectId, RunId, Span, WaitId};

use super::markup::{self, Markup};
use super::shell::{Page as Document, Shell, keep, next_page, show};
use super::visit::Visit;
use super::{empty, searches, words};
use crate::answer::Answered;
use crate::live::Topic;

/// How many runs a page has.
const PAGE: &str = "50";

/// Searches that are often made.
const PRESETS: &[(&str, &str)] = &[
    ("All", ""),
    ("In flight", "state:active"),
    ("In doubt", "state:in_doubt"),
    ("Need review", "state:needs_review"),
    ("Failed", "state:failed"),
    ("Failed, started in 24 h", "state:failed since:24h"),
];

/// What was typed into the search box.
#[derive(Debug, Default, PartialEq, Eq)]
struct Search {
    /// What narrows the list, by the name of the API's parameter.
    narrowed: Vec<(&'static str, String)>,
    key: String,
}

/// What narrows the list: as it is typed, and as the API names it.
const QUALIFIERS: &[(&str, &str)] = &[
    ("flow:", "flow"),
    ("state:", "state"),
    ("release:", "release"),
    ("since:", "since"),
    ("until:", "until"),
    ("error:", "error"),
    ("parent:", "parent"),
    ("external:", "external_id"),
];

/// Reads what was typed: qualifiers such as `flow:` narrow, everything else is a key.
fn read(text: &str, now: Timestamp) -> Search {
    let mut search = Search::default();
    let mut key = Vec::new();
    for word in text.split_whitespace() {
        let mut qualifiers = QUALIFIERS.iter();
        let found = qualifiers.find_map(|(typed, name)| Some((*name, word.strip_prefix(typed)?)));
        match found {
            Some((name, value)) => {
                search.narrowed.retain(|(known, _)| *known != name);
                search.narrowed.push((name, spelled(name, value, now)));
            }
            None => key.push(word.strip_prefix("key:").unwrap_or(word)),
        }
    }
    search.key = key.join(" ");
    search
}

/// A value as the API takes it. What it does not take is passed on as it is, and answered with what to do.
fn spelled(name: &str, value: &str, now: Timestamp) -> String {
    match name {
        "release" => value.strip_prefix('r').unwrap_or(value).to_owned(),
        "since" | "until" => time(value, now).map_or_else(|| value.to_owned(), |at| at.to_string()),
        _ => value.to_owned(),
    }
}

/// What a page is filtered by, as the API takes it.
pub(super) fn spell(visit: &Visit, filter: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
    let filter = filter.iter();
    filter
        .map(|(name, value)| (*name, spelled(name, value, visit.now)))
        .collect()
}

/// A time: whole, a day in UTC, or how long ago.
fn time(text: &str, now: Timestamp) -> Option<Timestamp> {
    if let Ok(at) = text.parse() {
        return Some(at);
    }
    if let Ok(day) = text.parse::<Date>() {
        return Some(day.to_zoned(TimeZone::UTC).ok()?.timestamp());
    }
    let ago: Span = text.parse().ok()?;
    now.checked_sub(ago.to_duration()).ok()
}

/// The page that an identity leads to.
fn jump(text: &str) -> Option<String> {
    if text.parse::<RunId>().is_ok() {
        return Some(format!("/runs/{text}"));
    }
    if text.parse::<EffectId>().is_ok() {
        return Some(format!("/effects/{text}"));
    }
    let wait = text.parse::<WaitId>().is_ok();
    wait.then(|| format!("/waits/{text}"))
}

/// `GET /console/{namespace}/runs`.
pub(super) async fn page(visit: Visit) -> Answered {
    let typed = visit.parameter("q");
    if let Some(page) = jump(typed) {
        return Ok(Redirect::to(&visit.page(&page)).into_response());
    }
    let search = read(typed, visit.now);
    if !search.key.is_empty() && search.narrowed.is_empty() {
        let story = words::address(&visit.page("/keys"), &[("key", &search.key)]);
        return Ok(Redirect::to(&story).into_response());
    }
    let cursor = visit.parameter("cursor");
    let asked = search.parameters(cursor);
    let json = words::address("/v1/runs", &asked);
    // Older runs are a page of their own, which new ones do not change.
    let following = match cursor {
        "" => visit.follow(Topic::Runs).await,
        _ => None,
    };
    let command = command(&asked);
    let mut shell = Shell::new(&visit, "/runs", "Runs", &json, &command);
    shell.search_for(typed);
    let found: Page<Run> = match visit.get(&json).await {
        Ok(found) => found,
        Err(error) => return keep(shell, error, vec![presets(&visit, typed)]),
    };
    let list = match found.items.is_empty() {
        true => nothing(&found, typed),
        false => table(&visit, "Runs, the newest first", &found.items),
    };
    let here = visit.page("/runs");
    let asked = [("q", typed)];
    let next = next_page("Older runs", &here, &asked, found.next.as_deref());
    let rows = Markup::join([list].into_iter().chain(next)).within("div", "rows");
    let saved = searches::beside(&visit, typed).await?;
    let body = [presets(&visit, typed), saved, rows];
    show(&Document {
        shell: shell.following(following),
        heading_markup: Markup::fixed("Runs"),
        lead_markup: Markup::default(),
        problem: None,
        body_markup: Markup::join(body),
    })
}

impl Search {
    /// The parameters of the API's route.
    fn parameters<'a>(&'a self, cursor: &'a str) -> Vec<(&'a str, &'a str)> {
        let narrowed = self.narrowed.iter();
        let mut asked: Vec<(&str, &str)> = narrowed
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        asked.extend([
            ("key", self.key.as_str()),
            ("limit", PAGE),
            ("cursor", cursor),
        ]);
        asked
    }
}

fn command(asked: &[(&str, &str)]) -> String {
    let mut command = "semel run list".to_owned();
    for (name, value) in asked.iter().filter(|(_, value)| !value.is_empty()) {
        let option = name.replace('_', "-");
        words::push_option(&mut command, &option, value);
    }
    command
}

fn presets(visit: &Visit, typed: &str) -> Markup {
    let links = PRESETS.iter().map(|(name, search)| {
        let href = words::address(&visit.page("/runs"), &[("q", search)]);
        match *search == typed {
            true => Markup::text(name).within("strong", "preset"),
            false => Markup::text(name).link(&href),
        }
    });
    Markup::join(links).within("p", "presets")
}

fn nothing(found: &Page<Run>, typed: &str) -> Markup {
    let words = match (&found.next, typed) {
        (Some(_), _) => {
            "Among the newest runs there is none of this kind. Older runs may have some."
        }
        (None, "") => return none_yet(),
        (None, _) => {
            "There is no such run. A key has to be whole; flow: state: release: since: until: error: parent: and external: narrow the list."
        }
    };
    empty::nothing(words)
}

/// What is shown before the first run.
pub(super) fn none_yet() -> Markup {
    empty::teach(
        "There is no run yet. A delivery to a flow's hook starts one, and so does a command.",
        "semel run start FLOW --key order-1 --input '{\"order\": \"order-1\"}'",
        "docs/triggers.md",
    )
}

/// Runs as a table.
pub(super) fn table(visit: &Visit, caption: &str, runs: &[Run]) -> Markup {
    let row = |run: &Run| {
        let took = match run.ended_at {
            Some(ended) => Markup::text(&words::between(run.accepted_at, ended)),
            None => why(visit, run),
        };
        vec![
            markup::run_state(run.state),
            markup::code(&run.key).link(&visit.page(&format!("/runs/{}", run.id))),
            Markup::text(&format!("{} r{}", run.flow, run.release)),
            visit.time(run.accepted_at),
            took,
        ]
    };
    let rows: Vec<Vec<Markup>> = runs.iter().map(row).collect();
    markup::table(
        caption,
        &["State", "Key", "Flow", "Accepted", "Took"],
        &rows,
    )
}

/// Why a run has not ended.
fn why(visit: &Visit, run: &Run) -> Markup {
    if run.cancelling {
        return Markup::fixed("being cancelled");
    }
    let due = |word: &'static str| match run.due_at {
        Some(at) => Markup::join([Markup::fixed(word), visit.time(at)]),
        None => Markup::default(),
    };
    match run.state {
        RunStatus::Waiting => due("due"),
        RunStatus::Retrying => due("again"),
        RunStatus::InDoubt => Markup::fixed("settle its doubt"),
        RunStatus::NeedsReview | RunStatus::Quarantined => Markup::fixed("needs an operator"),
        RunStatus::Active
        | RunStatus::Queued
        | RunStatus::Running
        | RunStatus::Succeeded
        | RunStatus::Failed
        | RunStatus::Cancelled
        | RunStatus::Superseded => Markup::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_word_is_a_key_and_qualifiers_narrow() {
        let now = Timestamp::UNIX_EPOCH + std::time::Duration::from_secs(7_200);
        let search = read(
            "flow:orders o-1 release:r4 since:1h until:2026-11-18 state:x state:failed",
            now,
        );

        let narrowed = [
            ("flow", "orders"),
            ("release", "4"),
            ("since", "1970-01-01T01:00:00Z"),
            ("until", "2026-11-18T00:00:00Z"),
            ("state", "failed"),
        ];
        let narrowed = narrowed.map(|(name, value)| (name, value.to_owned()));
        assert_eq!(search.narrowed, narrowed);
        assert_eq!(search.key, "o-1");
        assert_eq!(spelled("since", "then", now), "then");
        let zeros = "0".repeat(32);
        assert!(jump(&format!("run_{zeros}")).is_some());
        assert!(jump(&format!("eff_{zeros}")).is_some());
        assert_eq!(jump("order-1"), None);
    }
}
