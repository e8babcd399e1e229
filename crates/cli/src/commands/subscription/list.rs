//! `semel subscription list`.

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::style::{cell, render};
use crate::text::ago;

/// List the subscriptions of the namespace.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

pub(crate) async fn run(ctx: &Context, Arguments {}: &Arguments) -> Result<Answer, Problem> {
    let page = remote::client(ctx)?.list_subscriptions().await?;
    let header = ["SUBSCRIPTION", "EVENT", "CONNECTION", "DUE", "CREATED"];
    let mut table = ctx.style.table(&header);
    for one in &page.items {
        table.add_row([
            cell(&one.name),
            cell(&one.event),
            cell(&one.connection),
            cell(one.due.to_string()),
            cell(ago(one.created_at)),
        ]);
    }
    let answer = Answer::done(&page, render(&table));
    Ok(match page.items.first() {
        Some(first) => answer.next(format!("semel subscription show {}", first.name)),
        None => answer.note("no subscriptions yet"),
    })
}
