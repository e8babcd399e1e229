//! `semel connection list`.

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::style::{Tone, cell, render, toned_cell};
use crate::text::ago;
use crate::views::pause;

/// List the connections of the namespace.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

pub(crate) async fn run(ctx: &Context, Arguments {}: &Arguments) -> Result<Answer, Problem> {
    let page = remote::client(ctx)?.list_connections().await?;
    let mut table = ctx
        .style
        .table(&["CONNECTION", "KIND", "KEYS", "CHANGED", "SECRETS"]);
    for one in &page.items {
        let keys = one.connection.idempotency_keys.window;
        let secrets = one.connection.secrets().join(", ");
        table.add_row([
            cell(&one.name),
            cell(&one.kind),
            cell(keys.map_or("-".to_owned(), |span| span.to_string())),
            cell(ago(one.changed_at)),
            match one.missing.is_empty() {
                true => cell(if secrets.is_empty() { "-" } else { &secrets }),
                false => toned_cell(Tone::Bad, format!("missing: {}", one.missing.join(", "))),
            },
        ]);
    }
    let mut answer = Answer::done(&page, render(&table));
    let paused = page.items.iter().filter_map(|one| one.paused.as_ref());
    answer.notes.extend(paused.map(pause::tell));
    if page.items.is_empty() {
        answer = answer
            .note("no connections yet")
            .next("semel connection presets");
    }
    let missing = page.items.iter().flat_map(|one| &one.missing);
    Ok(missing.fold(answer, |answer, secret| {
        answer.next(format!("semel secret set {secret}"))
    }))
}
