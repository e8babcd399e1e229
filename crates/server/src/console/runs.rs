//! Runs: found by key, state and flow, newest first.

use axum::response::{IntoResponse, Redirect};
use semel_api::types::{Page, Run, RunStatus};
use semel_model::{EffectId, RunId, WaitId};

use super::markup::{self, Markup};
use super::shell::{Page as Document, Shell, keep, next_page, show};
use super::visit::Visit;
use super::{searches, words};
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
];

/// What was typed into the search box.
#[derive(Debug, Default, PartialEq, Eq)]
struct Search {
    flow: String,
    state: String,
    key: String,
}

/// Reads what was typed: `flow:` and `state:` narrow, everything else is a key.
fn read(text: &str) -> Search {
    let mut search = Search::default();
    let mut key = Vec::new();
    for word in text.split_whitespace() {
        if let Some(flow) = word.strip_prefix("flow:") {
            search.flow = flow.to_owned();
        } else if let Some(state) = word.strip_prefix("state:") {
            search.state = state.to_owned();
        } else if let Some(word) = word.strip_prefix("key:") {
            key.push(word);
        } else {
            key.push(word);
        }
    }
    search.key = key.join(" ");
    search
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
    wait.then(|| format!("/approvals/{text}"))
}

/// `GET /console/{namespace}/runs`.
pub(super) async fn page(visit: Visit) -> Answered {
    let typed = visit.parameter("q");
    if let Some(page) = jump(typed) {
        return Ok(Redirect::to(&visit.page(&page)).into_response());
    }
    let search = read(typed);
    if !search.key.is_empty() && search.flow.is_empty() && search.state.is_empty() {
        let story = words::address(&visit.page("/keys"), &[("key", &search.key)]);
        return Ok(Redirect::to(&story).into_response());
    }
    let cursor = visit.parameter("cursor");
    let asked = [
        ("flow", search.flow.as_str()),
        ("state", &search.state),
        ("key", &search.key),
        ("limit", PAGE),
        ("cursor", cursor),
    ];
    let json = words::address("/v1/runs", &asked);
    // Older runs are a page of their own, which new ones do not change.
    let following = match cursor {
        "" => visit.follow(Topic::Runs).await,
        _ => None,
    };
    let command = command(&search, cursor);
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

fn command(search: &Search, cursor: &str) -> String {
    let mut command = "semel run list".to_owned();
    let options = [
        ("--flow", search.flow.as_str()),
        ("--state", &search.state),
        ("--key", &search.key),
        ("--limit", PAGE),
        ("--cursor", cursor),
    ];
    for (option, value) in options.iter().filter(|(_, value)| !value.is_empty()) {
        command.push_str(&format!(" {option} {}", words::shell_word(value)));
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
        (None, "") => {
            "There is no run yet. `semel run start FLOW` starts one, and so does a delivery to a flow's hook."
        }
        (None, _) => {
            "There is no such run. A key has to be whole; flow: and state: narrow the list."
        }
    };
    Markup::text(words).within("p", "empty")
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
        let search = read("flow:orders o-1 state:failed");

        assert_eq!(
            search,
            Search {
                flow: "orders".to_owned(),
                state: "failed".to_owned(),
                key: "o-1".to_owned(),
            }
        );
        let zeros = "0".repeat(32);
        assert!(jump(&format!("run_{zeros}")).is_some());
        assert!(jump(&format!("eff_{zeros}")).is_some());
        assert_eq!(jump("order-1"), None);
    }
}
