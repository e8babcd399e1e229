//! What changes a replay plan: apply, pause and stop share it.

use semel_api::types::ChangePlan;
use semel_model::ReplayPlanId;

use crate::answer::{Answer, Problem};
use crate::commands::Repeat;
use crate::context::Context;
use crate::remote;

/// The plan, and what is recorded with its change.
#[derive(Debug, clap::Args)]
pub(super) struct PlanArguments {
    /// The plan.
    plan: ReplayPlanId,
    /// The reason, for the audit log.
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    repeat: Repeat,
}

/// Changes a plan; `meaning` says what follows.
pub(super) async fn change(
    ctx: &Context,
    arguments: &PlanArguments,
    verb: &str,
    per_second: Option<i32>,
    meaning: &str,
) -> Result<Answer, Problem> {
    let plan = arguments.plan;
    let change = ChangePlan {
        reason: arguments.reason.clone(),
        per_second,
    };
    let client = remote::client(ctx)?;
    // Said again of the same state it is the same command; said after another change, another.
    let found = client.get_replay_plan(plan).await?;
    let words = [&format!("replay {verb}"), &plan.to_string(), &found.state];
    let key = arguments.repeat.key_or(&words.map(String::as_str));
    let changed = client.change_replay_plan(plan, verb, &change, &key);
    let changed = changed.await?.body;
    let text = format!("{plan} is {}: {meaning}", changed.state);
    Ok(Answer::done(&changed, text).next(format!("semel replay show {plan}")))
}
