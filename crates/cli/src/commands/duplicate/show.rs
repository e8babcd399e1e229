//! `semel duplicate show`: the duplicates of one run, beside its own delivery.

use semel_api::types::{Duplicate, RunDetail};
use semel_model::RunId;
use serde_json::{Value, json};

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::style::Style;
use crate::text::{ago, printable};
use crate::views;

/// Show the duplicates of a run, and how their payloads differ from its own.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The run.
    run: RunId,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let client = remote::client(ctx)?;
    let found = client.get_run(arguments.run).await?;
    let page = client.list_duplicates(Some(arguments.run)).await?;
    let first = first_input(&found);
    let mut lines = vec![
        views::run::head(&found.run, views::Extent::Line, ctx.style),
        String::new(),
        format!("first   {}", views::value(&first)),
    ];
    lines.extend(page.items.iter().map(|item| tell(item, ctx.style)));
    let data = json!({"run": found.run, "first": first, "duplicates": page.items});
    let answer = Answer::done(data, lines.join("\n"));
    Ok(if page.items.is_empty() {
        answer.note("no duplicate of it was stopped")
    } else {
        answer
    })
}

/// The payload of the delivery that made the run.
fn first_input(found: &RunDetail) -> Value {
    let mut events = found.journal.iter().flat_map(|line| &line.events);
    events
        .find(|event| event.event["event"] == "accepted")
        .map(|event| event.event["input"].clone())
        .unwrap_or_default()
}

fn tell(duplicate: &Duplicate, style: Style) -> String {
    let payload = match &duplicate.payload {
        Some(payload) => views::value(payload),
        None => "the same payload".to_owned(),
    };
    let count = style.bold(&format!("×{}", duplicate.count));
    let verdict = printable(&duplicate.verdict);
    format!(
        "{count:<6}  {payload}  ({verdict}, last {})",
        ago(duplicate.last_at)
    )
}
