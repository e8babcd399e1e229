//! The story of one key: what came, what was done, and what was not done again.

mod drop_key;

pub(super) use drop_key::carry_out;

use axum::http::StatusCode;
use semel_api::types::{Duplicate, Effect, FoundKey, Run};

use drop_key::TypedDrop;

use super::forms::section;
use super::markup::{self, Markup};
use super::shell::{Page, Shell, Trouble, show_as};
use super::visit::Visit;
use super::{approvals, duplicates, effects, runs, story, words};
use crate::answer::Answered;

/// `GET /console/{namespace}/keys?key=`.
pub(super) async fn page(visit: Visit) -> Answered {
    let typed = TypedDrop::default();
    show_key(
        &visit,
        visit.parameter("key"),
        (StatusCode::OK, None),
        typed,
    )
    .await
}

async fn show_key(
    visit: &Visit,
    key: &str,
    (status, problem): (StatusCode, Option<Trouble>),
    typed: TypedDrop<'_>,
) -> Answered {
    let json = words::address("/v1/find", &[("key", key)]);
    let found: FoundKey = visit.get(&json).await?;
    let command = format!("semel find {}", words::operand(key));
    let mut shell = Shell::new(visit, "/runs", key, &json, &command);
    shell.search_for(key);
    let verdict = verdict(&found);
    let export = Markup::fixed("Export as JSON").link(&shell.same.open);
    let mut parts = vec![
        Markup::text(&verdict.text).within("p", verdict.class),
        export.within("p", "presets"),
        body(visit, &found),
    ];
    parts.extend(drop_key::section(
        visit,
        &found,
        (typed, problem.is_some()),
    )?);
    show_as(
        status,
        &Page {
            shell,
            heading_markup: markup::code(key),
            lead_markup: Markup::default(),
            problem,
            body_markup: Markup::join(parts),
        },
    )
}

fn body(visit: &Visit, found: &FoundKey) -> Markup {
    let mut parts = Vec::new();
    if !found.story.steps.is_empty() {
        let table = story::table(visit, "What was done under this key, by step", &found.story);
        parts.push(section("done", "What was done", &table));
    }
    if !found.effects.is_empty() {
        // All have the same key; the flow tells them apart.
        let by_flow = |effect: &Effect| {
            let run = found.runs.iter().find(|run| run.id == effect.run);
            let name = run.map_or("an item", |run| run.flow.as_str());
            Markup::text(name).link(&visit.page(&format!("/runs/{}", effect.run)))
        };
        let caption = "The newest effects of runs of this key";
        let table = effects::table_by(visit, caption, &found.effects, ("Run of", &by_flow));
        parts.push(section("effects", "Effects", &table));
    }
    if !found.named_effects.is_empty() {
        let rows = found.named_effects.iter().map(|it| {
            let holder = match (&it.holder_name, it.run) {
                (Some(name), _) => Markup::text(name),
                (None, Some(run)) => {
                    Markup::fixed("a run").link(&visit.page(&format!("/runs/{run}")))
                }
                (None, None) => Markup::default(),
            };
            vec![
                Markup::text(it.state.as_str()),
                markup::code(&it.scope),
                holder,
            ]
        });
        let rows: Vec<Vec<Markup>> = rows.collect();
        let columns = ["State", "Scope", "Latest holder"];
        let table = markup::table("Named effects of this key", &columns, &rows);
        parts.push(section("named", "Named effects", &table));
    }
    if !found.runs.is_empty() {
        let table = runs::table(visit, "Runs of this key", &found.runs);
        parts.push(section("runs", "Runs", &table));
    }
    if !found.items.is_empty() {
        let rows: Vec<Vec<Markup>> = found
            .items
            .iter()
            .map(|found| {
                let run = found.item.run.to_string();
                let parent = found.parent.to_string();
                vec![
                    markup::code(&found.item.step).link(&visit.page(&format!("/runs/{run}"))),
                    Markup::text(found.item.state.as_str()),
                    Markup::fixed("the run").link(&visit.page(&format!("/runs/{parent}"))),
                ]
            })
            .collect();
        let table = markup::table(
            "Items of lists",
            &["Step", "State", "Run of the list"],
            &rows,
        );
        parts.push(section("items", "Items of lists", &table));
    }
    if !found.duplicates.is_empty() {
        let table = duplicates::table(visit, "Repeats that were stopped", &found.duplicates);
        parts.push(section("repeats", "Repeats that were stopped", &table));
    }
    if !found.approvals.is_empty() {
        let table = approvals::table(visit, "Approvals", &found.approvals);
        parts.push(section("approvals", "Approvals", &table));
    }
    if !found.cut.is_empty() {
        let more = format!("There is more than is shown: {}.", found.cut.join(", "));
        parts.push(Markup::text(&more).within("p", "help"));
    }
    Markup::join(parts)
}

/// What a person at a support desk can say, and how sure it is.
struct Verdict {
    text: String,
    class: &'static str,
}

fn verdict(found: &FoundKey) -> Verdict {
    if found.is_empty() {
        return Verdict {
            text: "Nothing is known under this key. It has to be the whole key, not a part of it."
                .to_owned(),
            class: "verdict is-open",
        };
    }
    let mut sentences = found.verdict.clone();
    sentences.extend(deliveries(&found.runs, &found.duplicates));
    sentences.extend(ends(&found.runs));
    let newest = found.runs.first().map(|run| run.state);
    let class = if found.story.is_in_doubt() {
        "verdict is-doubt"
    } else if newest.is_some_and(|state| !state.is_ended()) {
        "verdict is-open"
    } else if newest == Some(semel_api::types::RunStatus::Failed) {
        "verdict is-bad"
    } else {
        "verdict"
    };
    Verdict {
        text: sentences.join(" "),
        class,
    }
}

/// How many runs there are, and what became of deliveries that started none.
fn deliveries(runs: &[Run], duplicates: &[Duplicate]) -> Option<String> {
    if runs.is_empty() {
        return None;
    }
    let outside = ["claim", "replay", "order"];
    let stopped = |verdict: &str| -> usize {
        let same = duplicates.iter().filter(|it| it.verdict == verdict);
        let same = same.filter(|it| outside.contains(&it.stopped_by.as_str()));
        same.map(|it| it.count.unsigned_abs() as usize).sum()
    };
    let (repeats, others) = (stopped("repeat"), stopped("mismatch"));
    let (held, late) = (stopped("held"), stopped("stale"));
    let was = |number: usize| if number == 1 { "was" } else { "were" };
    let mut told = words::count(runs.len(), "run", "runs");
    if repeats > 0 {
        let repeats = words::count(repeats, "repeat", "repeats");
        told.push_str(&format!("; {repeats} got the first answer"));
    }
    if others > 0 {
        let deliveries = words::count(others, "delivery", "deliveries");
        let was = was(others);
        told.push_str(&format!(
            "; {deliveries} brought another payload and {was} refused"
        ));
    }
    if held > 0 {
        let deliveries = words::count(held, "delivery", "deliveries");
        told.push_str(&format!(
            "; {deliveries} {} held for an operator",
            was(held)
        ));
    }
    if late > 0 {
        let deliveries = words::count(late, "delivery", "deliveries");
        told.push_str(&format!("; {deliveries} came too late"));
    }
    Some(format!("{told}."))
}

fn ends(runs: &[Run]) -> Option<String> {
    let newest = runs.first()?;
    if newest.state.is_ended() {
        return None;
    }
    Some(format!(
        "The newest run is {}.",
        newest.state.as_str().replace('_', " ")
    ))
}

#[cfg(test)]
mod tests {
    use semel_api::types::{StepStory, StoryCounts};
    use serde_json::json;

    use super::*;

    fn found(verdict: &str, in_doubt: u64, repeats: i64) -> FoundKey {
        let run = "run_00000000000000000000000000000001";
        let at = "2026-01-01T00:00:00Z";
        let mut found: FoundKey = serde_json::from_value(json!({
            "key": "o-1", "items": [], "effects": [], "named_effects": [], "waits": [], "approvals": [],
            "verdict": [verdict],
            "runs": [{"run": run, "flow": "orders", "release": 1, "key": "o-1", "state": "succeeded", "accepted_at": at}],
            "duplicates": [{"run": run, "stopped_by": "claim", "verdict": "repeat", "count": repeats,
                "first_at": at, "last_at": at, "fingerprint": "f"}],
        }))
        .unwrap();
        found.story.steps = vec![StepStory {
            step: "charge".to_owned(),
            kind: "http".to_owned(),
            in_children: false,
            counts: StoryCounts {
                in_doubt,
                ..StoryCounts::default()
            },
            external_ids: Vec::new(),
            runs: Vec::new(),
            met_by: Vec::new(),
            first_at: at.parse().unwrap(),
            last_at: at.parse().unwrap(),
        }];
        found
    }

    #[test]
    fn a_verdict_says_what_was_done_and_what_was_not_done_again() {
        let sure = verdict(&found("charge was done once (ch_77).", 0, 2));
        let unsure = verdict(&found("Whether charge happened is unknown.", 1, 1));

        assert_eq!(
            sure.text,
            "charge was done once (ch_77). 1 run; 2 repeats got the first answer."
        );
        assert_eq!(sure.class, "verdict");
        assert_eq!(
            unsure.text,
            "Whether charge happened is unknown. 1 run; 1 repeat got the first answer."
        );
        assert_eq!(unsure.class, "verdict is-doubt");
    }
}
