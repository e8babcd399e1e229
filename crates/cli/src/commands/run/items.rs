//! `semel run items`: the items and branches of a run.

use semel_api::types::{ChildRunFilter, ChildRunState};
use semel_model::RunId;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::views;

/// List the items and branches of a run, each a run of its own.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  semel run items run_0123… --state failed
  semel run items run_0123… --step each --limit 100")]
pub(crate) struct Arguments {
    /// The run.
    run: RunId,
    /// Only those of this step.
    #[arg(long)]
    step: Option<String>,
    /// Only those in this state: pending, open, succeeded, failed, cancelled.
    #[arg(long)]
    state: Option<ChildRunState>,
    /// The most items to list.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
    limit: u16,
    /// The cursor of the previous page.
    #[arg(long)]
    cursor: Option<String>,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let filter = ChildRunFilter {
        step: arguments.step.clone(),
        state: arguments.state,
        limit: Some(arguments.limit),
        cursor: arguments.cursor.clone(),
    };
    let run = arguments.run;
    let page = remote::client(ctx)?.list_child_runs(run, &filter).await?;
    let answer = Answer::done(&page, views::child_run::table(&page.items, ctx.style));
    let failed = page
        .items
        .iter()
        .find(|child| child.state == ChildRunState::Failed);
    let answer = match (failed, page.items.first()) {
        (Some(child), _) => answer
            .next(format!("semel run show {}", child.run))
            .decision(
                "to retry what failed",
                format!("semel run resume {run} --reason '…'"),
            ),
        (None, Some(child)) => answer.next(format!("semel run show {}", child.run)),
        (None, None) => answer.note("no item matches"),
    };
    Ok(match &page.next {
        Some(cursor) => answer.note(format!("there are more: --cursor {cursor}")),
        None => answer,
    })
}
