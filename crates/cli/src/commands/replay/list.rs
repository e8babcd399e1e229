//! `semel replay list`: the plans of the namespace.

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::views::replay_plan;

/// List replay plans, newest first.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

pub(crate) async fn run(ctx: &Context, _: &Arguments) -> Result<Answer, Problem> {
    let page = remote::client(ctx)?.list_replay_plans().await?;
    let text = replay_plan::table(&page.items, ctx.style);
    Ok(Answer::done(&page, text))
}
