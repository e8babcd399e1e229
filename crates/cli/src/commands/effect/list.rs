//! `semel effect list`.

use semel_api::types::EffectFilter;
use semel_model::RunId;
use semel_model::effect::State;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::views;

/// List effects, newest first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  semel effect list --state in_doubt")]
pub(crate) struct Arguments {
    /// Only of this run.
    #[arg(long)]
    run: Option<RunId>,
    /// Only in this state: pending, retrying, done, failed or in_doubt.
    #[arg(long)]
    state: Option<State>,
    /// The most effects to list.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
    limit: u16,
    /// Where the page before ended.
    #[arg(long)]
    cursor: Option<String>,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let filter = EffectFilter {
        state: arguments.state,
        run: arguments.run,
        limit: Some(arguments.limit),
        cursor: arguments.cursor.clone(),
    };
    let page = remote::client(ctx)?.list_effects(&filter).await?;
    let answer = Answer::done(&page, views::effect::table(&page.items, ctx.style));
    let answer = match page.items.first() {
        Some(newest) => answer.next(format!("semel effect show {}", newest.id)),
        None => answer.note("no effect is like that"),
    };
    Ok(match &page.next {
        Some(cursor) => answer.note(format!("there are more: --cursor {cursor}")),
        None => answer,
    })
}
