//! `semel flow list`.

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::style::{cell, render};
use crate::views::{maybe_ago, pause};

/// List the flows and their live releases.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

pub(crate) async fn run(ctx: &Context, Arguments {}: &Arguments) -> Result<Answer, Problem> {
    let page = remote::client(ctx)?.list_flows().await?;
    let number = |number: Option<i32>| number.map_or("-".to_owned(), |number| format!("r{number}"));
    let mut table = ctx
        .style
        .table(&["FLOW", "LIVE", "LATEST", "PUBLISHED", "DRAFT", "REHEARSAL"]);
    for flow in &page.items {
        table.add_row([
            cell(&flow.name),
            cell(number(flow.live)),
            cell(number(flow.latest)),
            cell(maybe_ago(flow.published_at)),
            cell(maybe_ago(flow.draft_at)),
            cell(flow.proof.as_deref().unwrap_or("-")),
        ]);
    }
    let mut answer = Answer::done(&page, render(&table));
    let paused = page.items.iter().filter_map(|flow| flow.paused.as_ref());
    answer.notes.extend(paused.map(pause::tell));
    Ok(if page.items.is_empty() {
        answer.note("no flows yet").next("semel flow push FILE")
    } else {
        answer
    })
}
