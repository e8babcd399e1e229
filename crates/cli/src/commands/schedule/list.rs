//! `semel schedule list`.

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::style::{cell, render};
use crate::views::schedule::{latest, next};

/// List the schedules of live releases.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

pub(crate) async fn run(ctx: &Context, Arguments {}: &Arguments) -> Result<Answer, Problem> {
    let page = remote::client(ctx)?.list_schedules().await?;
    let header = ["FLOW", "RECURRENCE", "ZONE", "MISSED", "NEXT", "LATEST"];
    let mut table = ctx.style.table(&header);
    for one in &page.items {
        table.add_row([
            cell(one.flow.as_str()),
            cell(&one.recurrence),
            cell(&one.zone),
            cell(&one.missed),
            cell(next(one)),
            cell(latest(one)),
        ]);
    }
    let answer = Answer::done(&page, render(&table));
    Ok(match page.items.first() {
        Some(first) => answer.next(format!("semel schedule show {}", first.flow)),
        None => answer.note("no live release has a schedule"),
    })
}
