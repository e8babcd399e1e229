//! `semel replay stop`.

use super::change::{PlanArguments, change};
use crate::answer::{Answer, Problem};
use crate::context::Context;

/// Stop a plan for good: runs that were replayed continue, the others stay as they are.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  semel replay stop plan_0123…")]
pub(crate) struct Arguments {
    #[command(flatten)]
    plan: PlanArguments,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let meaning = "no further run is replayed";
    change(ctx, &arguments.plan, "stop", None, meaning).await
}
