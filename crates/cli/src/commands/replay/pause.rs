//! `semel replay pause`.

use semel_api::types::ChangePlan;
use semel_model::ReplayPlanId;

use crate::answer::{Answer, Problem};
use crate::commands::Repeat;
use crate::context::Context;
use crate::remote;

/// Pause a plan: runs that were replayed continue, the others wait for `semel replay apply`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  semel replay pause plan_0123…")]
pub(crate) struct Arguments {
    /// The plan.
    plan: ReplayPlanId,
    /// The reason, for the audit log.
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    repeat: Repeat,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let plan = arguments.plan;
    let change = ChangePlan {
        reason: arguments.reason.clone(),
        per_second: None,
    };
    let client = remote::client(ctx)?;
    // Said again of the same state it is the same command; said after another change, another.
    let found = client.get_replay_plan(plan).await?;
    let words = ["replay pause", &plan.to_string(), &found.state];
    let key = arguments.repeat.key_or(&words);
    let changed = client
        .change_replay_plan(plan, "pause", &change, &key)
        .await?
        .body;
    let text = format!("{plan} is {}: no further run is replayed", changed.state);
    Ok(Answer::done(&changed, text).next(format!("semel replay show {plan}")))
}
