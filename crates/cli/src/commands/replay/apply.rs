//! `semel replay apply`.

use semel_api::types::ChangePlan;
use semel_model::ReplayPlanId;

use crate::answer::{Answer, Problem};
use crate::commands::Repeat;
use crate::context::Context;
use crate::remote;

/// Replay the runs of a plan that is planned or paused, each as its preview showed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  semel replay apply plan_0123…")]
pub(crate) struct Arguments {
    /// The plan.
    plan: ReplayPlanId,
    /// The most runs that are replayed in a second, from 1 to 100; as planned, by default.
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..=100))]
    per_second: Option<i32>,
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
        per_second: arguments.per_second,
    };
    let client = remote::client(ctx)?;
    // Said again of the same state it is the same command; said after another change, another.
    let found = client.get_replay_plan(plan).await?;
    let words = ["replay apply", &plan.to_string(), &found.state];
    let key = arguments.repeat.key_or(&words);
    let changed = client
        .change_replay_plan(plan, "apply", &change, &key)
        .await?
        .body;
    let text = format!(
        "{plan} is {}: its runs are replayed in the background",
        changed.state
    );
    Ok(Answer::done(&changed, text).next(format!("semel replay show {plan}")))
}
