//! `semel replay pause`.

use super::change::{PlanArguments, change};
use crate::answer::{Answer, Problem};
use crate::context::Context;

/// Pause a plan: runs that were replayed continue, the others wait for `semel replay apply`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  semel replay pause plan_0123…")]
pub(crate) struct Arguments {
    #[command(flatten)]
    plan: PlanArguments,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let meaning = "no further run is replayed";
    change(ctx, &arguments.plan, "pause", None, meaning).await
}
