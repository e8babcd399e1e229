//! `semel replay runs`: the runs of a plan, with what became of each.

use semel_api::types::PlannedRunFilter;
use semel_model::ReplayPlanId;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::views::replay_plan;

/// List the runs of a replay plan, with what became of each.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  semel replay runs plan_0123… --state refused")]
pub(crate) struct Arguments {
    /// The plan.
    plan: ReplayPlanId,
    /// Only those in this state: frozen, previewed, replayed or refused.
    #[arg(long)]
    state: Option<String>,
    /// The most to list.
    #[arg(long)]
    limit: Option<u16>,
    /// Where the page before ended.
    #[arg(long)]
    cursor: Option<String>,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let filter = PlannedRunFilter {
        state: arguments.state.clone(),
        limit: arguments.limit,
        cursor: arguments.cursor.clone(),
    };
    let plan = arguments.plan;
    let page = remote::client(ctx)?
        .list_planned_runs(plan, &filter)
        .await?;
    let answer = Answer::done(&page, replay_plan::runs(&page.items, ctx.style));
    Ok(match &page.next {
        Some(cursor) => answer.next(format!("semel replay runs {plan} --cursor {cursor}")),
        None => answer,
    })
}
