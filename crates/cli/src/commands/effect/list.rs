//! `semel effect list`.

use jiff::Timestamp;
use semel_api::types::EffectFilter;
use semel_model::effect::EffectState;
use semel_model::{FlowName, RunId};

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::text::read_time;
use crate::views;

/// List effects, newest first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  semel effect list --state in_doubt
  semel effect list --flow orders --step charge --since 2026-11-01T00:00:00Z
  semel effect list --external-id ch_3Nq8      which order made this charge
  semel effect list --flow charge --key o-42   which charge this order made")]
pub(crate) struct Arguments {
    /// Only those of this run.
    #[arg(long)]
    run: Option<RunId>,
    /// Only in this state: pending, retrying, done, failed or in_doubt.
    #[arg(long)]
    state: Option<EffectState>,
    /// Only those with this identifier at the destination.
    #[arg(long, value_name = "ID", conflicts_with_all = ["run", "flow"])]
    external_id: Option<String>,
    /// Only those of this flow; with --key, of its run of that key.
    #[arg(long, conflicts_with = "run")]
    flow: Option<FlowName>,
    /// The key, with --flow.
    #[arg(long, requires = "flow")]
    key: Option<String>,
    /// Only those of the step with this path.
    #[arg(long)]
    step: Option<String>,
    /// Only those intended at this time or later, e.g. 2026-11-01T00:00:00Z, 2026-11-17 or 24h ago: 24h.
    #[arg(long, value_name = "TIME", value_parser = read_time)]
    since: Option<Timestamp>,
    /// Only those intended before this time.
    #[arg(long, value_name = "TIME", value_parser = read_time)]
    until: Option<Timestamp>,
    /// The most effects to list.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
    limit: u16,
    /// The cursor of the previous page.
    #[arg(long)]
    cursor: Option<String>,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let filter = EffectFilter {
        state: arguments.state,
        run: arguments.run,
        external_id: arguments.external_id.clone(),
        flow: arguments.flow.clone(),
        key: arguments.key.clone(),
        step: arguments.step.clone(),
        since: arguments.since,
        until: arguments.until,
        limit: Some(arguments.limit),
        cursor: arguments.cursor.clone(),
    };
    let page = remote::client(ctx)?.list_effects(&filter).await?;
    let mapped = page.items.iter().any(|effect| effect.source.is_some());
    let table = match mapped {
        true => views::effect::map(&page.items, ctx.style),
        false => views::effect::table(&page.items, ctx.style),
    };
    let answer = Answer::done(&page, table);
    let answer = match page.items.first() {
        Some(newest) => answer.next(format!("semel effect show {}", newest.id)),
        None => answer.note("no effect matches"),
    };
    Ok(match &page.next {
        Some(cursor) => answer.note(format!("there are more: --cursor {cursor}")),
        None => answer,
    })
}
