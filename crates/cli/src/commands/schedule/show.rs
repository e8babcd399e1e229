//! `semel schedule show`.

use jiff::Timestamp;
use semel_api::types::{TickFilter, TickVerdict};
use semel_model::FlowName;
use serde_json::json;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::text::printable;
use crate::views::schedule;

/// Show a schedule, and what happened to its latest instants.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The flow.
    flow: FlowName,
    /// The most ticks to list.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
    limit: u16,
    /// The cursor of the previous page.
    #[arg(long)]
    cursor: Option<Timestamp>,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let flow = &arguments.flow;
    let client = remote::client(ctx)?;
    let found = client.get_schedule(flow).await?;
    let filter = TickFilter {
        limit: Some(arguments.limit),
        cursor: arguments.cursor,
    };
    let page = client.list_ticks(flow, &filter).await?;
    let text = format!(
        "{} r{}: {} in {}, missed: {}\nnext: {}\n\n{}",
        ctx.style.bold(flow.as_str()),
        found.release,
        printable(&found.recurrence),
        printable(&found.zone),
        printable(&found.missed),
        schedule::next(&found),
        schedule::table(&page.items, ctx.style)
    );
    let whole = json!({ "schedule": found, "ticks": page });
    let mut answer = Answer::done(&whole, text);
    if page.items.is_empty() {
        answer = answer.note("none of its instants has come yet");
    }
    let skipped = |verdict: TickVerdict| verdict == TickVerdict::Skipped;
    if let Some(one) = page.items.iter().find(|one| skipped(one.verdict)) {
        answer = answer.next(format!("semel schedule fire {flow} --at {}", one.nominal));
    }
    let answer = match found.paused_at {
        Some(_) => answer.next(format!("semel schedule resume {flow}")),
        None => answer.next(format!("semel schedule next {flow}")),
    };
    Ok(match &page.next {
        Some(cursor) => answer.note(format!("there are more: --cursor {cursor}")),
        None => answer,
    })
}
