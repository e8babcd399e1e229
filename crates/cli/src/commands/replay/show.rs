//! `semel replay show`: a plan, its previews in short, and its progress.

use semel_model::ReplayPlanId;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::views::replay_plan;

/// Show a replay plan: what its previews show, and how far it is.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  semel replay show plan_0123…")]
pub(crate) struct Arguments {
    /// The plan.
    plan: ReplayPlanId,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let plan = arguments.plan;
    let found = remote::client(ctx)?.get_replay_plan(plan).await?;
    let answer = Answer::done(&found, replay_plan::detail(&found, ctx.style));
    Ok(match found.state.as_str() {
        "planned" | "paused" => {
            answer.decision("to replay its runs", format!("semel replay apply {plan}"))
        }
        _ => answer.next(format!("semel replay runs {plan}")),
    })
}
