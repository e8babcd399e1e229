//! `semel schedule next`.

use jiff::Timestamp;
use semel_api::types::InstantFilter;
use semel_model::FlowName;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::style::{cell, render};
use crate::text::ago;

/// Show the next undecided instants of a schedule, in UTC and in the schedule's time zone. An
/// instant that was fired by hand is decided.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  semel schedule next nightly
  semel schedule next nightly --after 2027-03-27T00:00:00Z    over a change of the clocks")]
pub(crate) struct Arguments {
    /// The flow.
    flow: FlowName,
    /// How many.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=500))]
    count: u16,
    /// Those after this instant; by default those that are not decided yet.
    #[arg(long, value_name = "INSTANT")]
    after: Option<Timestamp>,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let flow = &arguments.flow;
    let filter = InstantFilter {
        limit: Some(arguments.count),
        after: arguments.after,
    };
    let client = remote::client(ctx)?;
    let found = client.get_schedule(flow).await?;
    let page = client.list_instants(flow, &filter).await?;
    let mut table = ctx.style.table(&["INSTANT", "LOCAL TIME", "WHEN"]);
    for one in &page.items {
        table.add_row([
            cell(one.at.to_string()),
            cell(&one.local),
            cell(ago(one.at)),
        ]);
    }
    let answer = Answer::done(&page, render(&table));
    Ok(match found.paused_at {
        Some(_) => answer
            .note("the schedule is paused: these start nothing until it is resumed")
            .next(format!("semel schedule resume {flow}")),
        None => answer.next(format!("semel schedule show {flow}")),
    })
}
