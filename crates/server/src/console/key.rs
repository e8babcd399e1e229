//! The story of one key: what came, what was done, and what was not done again.

mod drop_key;

pub(super) use drop_key::carry_out;

use std::collections::BTreeMap;

use axum::http::StatusCode;
use semel_api::types::{Duplicate, Effect, FoundKey, OnceEffect, Run};
use semel_model::NamedEffectState;
use semel_model::effect::EffectState;

use drop_key::TypedDrop;

use super::forms::section;
use super::markup::{self, Markup};
use super::shell::{Page, Shell, Trouble, show_as};
use super::visit::Visit;
use super::{approvals, duplicates, effects, runs, words};
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
    if !found.effects.is_empty() {
        // All have the same key; the flow tells them apart.
        let by_flow = |effect: &Effect| {
            let run = found.runs.iter().find(|run| run.id == effect.run);
            let name = run.map_or("an item", |run| run.flow.as_str());
            Markup::text(name).link(&visit.page(&format!("/runs/{}", effect.run)))
        };
        let caption = "Effects under this key";
        let table = effects::table_by(visit, caption, &found.effects, ("Run of", &by_flow));
        parts.push(section("effects", "What was done", &table));
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
    let mut sentences: Vec<String> = done(&found.effects).into_iter().collect();
    sentences.extend(doubtful(&found.effects));
    sentences.extend(under_way(&found.effects));
    sentences.extend(named(&found.named_effects));
    // Only where nothing is in doubt or under way: those are no failures.
    if sentences.is_empty() {
        sentences.push("Nothing was done.".to_owned());
    }
    sentences.extend(deliveries(&found.runs, &found.duplicates));
    sentences.extend(ends(&found.runs));
    let is = |state| found.effects.iter().any(|effect| effect.state == state);
    let is_doubt = found
        .named_effects
        .iter()
        .any(|it| it.state == NamedEffectState::InDoubt);
    let newest = found.runs.first().map(|run| run.state);
    let class = if is_doubt || is(EffectState::InDoubt) {
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

/// What happened under the key by `semel once`, or under a step's business key.
fn named(effects: &[OnceEffect]) -> Vec<String> {
    let told = effects.iter().map(|effect| {
        let scope = &effect.scope;
        match effect.state {
            NamedEffectState::Done => format!("It was done once ({scope})."),
            NamedEffectState::InDoubt => format!("Whether it happened is unknown ({scope})."),
            NamedEffectState::Pending => format!("It is being performed ({scope})."),
            NamedEffectState::Undoing => format!("It was done, and is being undone ({scope})."),
            NamedEffectState::Failed => format!("It was not done ({scope})."),
        }
    });
    told.collect()
}

/// What happened, by step.
fn done(effects: &[Effect]) -> Option<String> {
    let mut steps: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for effect in effects.iter().filter(|it| it.state == EffectState::Done) {
        let ids = steps.entry(&effect.step).or_default();
        ids.push(effect.external_id.as_deref().unwrap_or_default());
    }
    if steps.is_empty() {
        return None;
    }
    let told = steps.iter().map(|(step, ids)| {
        let named: Vec<&str> = ids
            .iter()
            .copied()
            .filter(|id| !id.is_empty())
            .take(3)
            .collect();
        let named = match named.is_empty() {
            true => String::new(),
            false => format!(" ({})", named.join(", ")),
        };
        match ids.len() {
            1 => format!("{step} was done once{named}"),
            number => format!("{step} was done {number} times{named}"),
        }
    });
    Some(format!("{}.", told.collect::<Vec<_>>().join("; ")))
}

fn under_way(effects: &[Effect]) -> Option<String> {
    let open = [EffectState::Pending, EffectState::Retrying];
    let open = effects.iter().filter(|it| open.contains(&it.state));
    let steps: Vec<&str> = open.map(|effect| effect.step.as_str()).collect();
    (!steps.is_empty()).then(|| {
        format!(
            "{} has not happened yet, or is happening.",
            steps.join(", ")
        )
    })
}

fn doubtful(effects: &[Effect]) -> Option<String> {
    let doubts = effects.iter().filter(|it| it.state == EffectState::InDoubt);
    let steps: Vec<&str> = doubts.map(|effect| effect.step.as_str()).collect();
    (!steps.is_empty()).then(|| format!("Whether {} happened is unknown.", steps.join(", ")))
}

/// How many deliveries came, and what became of those that started nothing.
fn deliveries(runs: &[Run], duplicates: &[Duplicate]) -> Option<String> {
    let flows: std::collections::BTreeSet<&str> =
        runs.iter().map(|run| run.flow.as_str()).collect();
    if flows.is_empty() {
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
    let all = flows.len() + repeats + others + held + late;
    let mut told = match all {
        1 => "1 delivery came".to_owned(),
        all => format!("{all} deliveries came"),
    };
    let was = |number: usize| if number == 1 { "was" } else { "were" };
    let one_of = |number: usize, one: &str, more: &str| match number {
        1 => format!("1 was {one}"),
        number => format!("{number} were {more}"),
    };
    if repeats > 0 {
        let repeat = one_of(repeats, "a repeat", "repeats");
        told.push_str(&format!("; {repeat} and got the first answer"));
    }
    if others > 0 {
        told.push_str(&format!(
            "; {others} brought another payload and {} refused",
            was(others)
        ));
    }
    if held > 0 {
        told.push_str(&format!("; {held} {} held for an operator", was(held)));
    }
    if late > 0 {
        told.push_str(&format!("; {late} came too late"));
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
    use serde_json::json;

    use super::*;

    fn found(state: &str, repeats: i64) -> FoundKey {
        let run = "run_00000000000000000000000000000001";
        let at = "2026-01-01T00:00:00Z";
        serde_json::from_value(json!({
            "key": "o-1", "items": [], "named_effects": [], "waits": [], "approvals": [],
            "runs": [{"run": run, "flow": "orders", "release": 1, "key": "o-1", "state": "succeeded", "accepted_at": at}],
            "effects": [{"effect": "eff_00000000000000000000000000000001", "run": run, "step": "charge",
                "kind": "http", "guard": "key", "state": state, "attempt": 1, "intended_at": at, "external_id": "ch_77"}],
            "duplicates": [{"run": run, "stopped_by": "claim", "verdict": "repeat", "count": repeats,
                "first_at": at, "last_at": at, "fingerprint": "f"}],
        }))
        .unwrap()
    }

    #[test]
    fn a_verdict_says_what_was_done_and_what_was_not_done_again() {
        let sure = verdict(&found("done", 2));
        let unsure = verdict(&found("in_doubt", 1));

        assert_eq!(
            sure.text,
            "charge was done once (ch_77). 3 deliveries came; 2 were repeats and got the first answer."
        );
        assert_eq!(sure.class, "verdict");
        assert!(
            unsure
                .text
                .starts_with("Whether charge happened is unknown. 2 deliveries came")
        );
        assert_eq!(unsure.class, "verdict is-doubt");
        assert!(
            verdict(&found("pending", 1))
                .text
                .starts_with("charge has not happened yet")
        );
        assert!(
            verdict(&found("failed", 1))
                .text
                .starts_with("Nothing was done.")
        );
    }
}
