//! `semel find`.

use semel_api::types::{FoundItem, FoundKey};

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::style::{Style, cell, render};
use crate::text::printable;
use crate::views;

/// Find everything under one key: what was done, runs, items, effects, waits, approvals and duplicates.
///
/// The key is matched as a whole: the key of runs of every flow, of items of lists, of steps with a
/// `key`, of `semel once`, and the value of an event that a run waits for. An identifier that a
/// destination returned, e.g. of a charge, finds the effect that made it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  semel find order-42
  semel find ch_3Nq8      the effect that made this charge")]
pub(crate) struct Arguments {
    /// The key.
    key: String,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let found = remote::client(ctx)?.find_key(&arguments.key).await?;
    let answer = Answer::done(&found, tell(&found, ctx.style));
    if found.is_empty() {
        let note = "nothing is known under this key; it must be the whole key, not a part of it";
        return Ok(answer.note(note).next("semel run list"));
    }
    let answer = match found.cut.is_empty() {
        true => answer,
        false => answer.note(format!("there are more: {}", found.cut.join(", "))),
    };
    let run = found.runs.first().map(|run| run.id);
    let run = run.or_else(|| found.items.first().map(|found| found.item.run));
    let run = run.or_else(|| found.effects.first().map(|effect| effect.run));
    Ok(match run {
        Some(run) => answer.next(format!("semel run show {run}")),
        None => answer,
    })
}

fn tell(found: &FoundKey, style: Style) -> String {
    let verdict: Vec<String> = found.verdict.iter().map(|it| printable(it)).collect();
    let mut parts: Vec<String> = Vec::new();
    if !verdict.is_empty() && !found.is_empty() {
        parts.push(verdict.join("\n"));
    }
    let mut add = |title: &str, some: bool, table: String| {
        if some {
            parts.push(format!("{}\n{table}", style.bold(title)));
        }
    };
    add(
        "Runs",
        !found.runs.is_empty(),
        views::run::table(&found.runs, style),
    );
    add("Items", !found.items.is_empty(), items(&found.items, style));
    add(
        "Effects",
        !found.effects.is_empty(),
        views::effect::table(&found.effects, style),
    );
    add(
        "Named effects",
        !found.named_effects.is_empty(),
        views::once::table(&found.named_effects, style),
    );
    add(
        "Waits",
        !found.waits.is_empty(),
        views::effect::waits(&found.waits, style),
    );
    add(
        "Approvals",
        !found.approvals.is_empty(),
        views::approval::table(&found.approvals, style),
    );
    add(
        "Duplicates",
        !found.duplicates.is_empty(),
        views::duplicate::table(&found.duplicates, style),
    );
    if let Some(entry) = &found.entry {
        let entries = std::slice::from_ref(entry);
        add("Entry of kv", true, views::entry::table(entries, style));
    }
    parts.join("\n\n")
}

fn items(items: &[FoundItem], style: Style) -> String {
    let mut table = style.table(&["ITEM", "OF RUN", "STEP", "STATE", "RUN"]);
    for found in items {
        table.add_row([
            cell(printable(&found.item.key)),
            cell(found.parent.to_string()),
            cell(printable(&found.item.step)),
            cell(found.item.state.as_str()),
            cell(found.item.run.to_string()),
        ]);
    }
    render(&table)
}
