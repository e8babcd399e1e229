//! `semel replay list`: the plans of the namespace.

use semel_api::types::ReplayPlanFilter;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::paging::{PageArguments, more};
use crate::remote;
use crate::views::replay_plan;

/// List replay plans, newest first.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    page: PageArguments,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let filter = ReplayPlanFilter {
        limit: arguments.page.limit,
        cursor: arguments.page.cursor.clone(),
    };
    let page = remote::client(ctx)?.list_replay_plans(&filter).await?;
    let text = replay_plan::table(&page.items, ctx.style);
    Ok(more(Answer::done(&page, text), page.next.as_deref()))
}
