//! `semel replay plan`: freezes which runs are replayed together.

use jiff::Timestamp;
use semel_api::types::{PlanReplay, RunStatus};
use semel_model::FlowName;

use crate::answer::{Answer, Problem};
use crate::commands::Repeat;
use crate::context::Context;
use crate::remote;
use crate::views::replay_plan;

/// Freeze which runs are replayed together, at most 10,000, on the live release.
///
/// A plan has the last run of each key. Its runs are previewed in the background; nothing is
/// replayed before `semel replay apply`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  semel replay plan --flow orders --state failed --error http-400 --reason 'fixed in r4'")]
pub(crate) struct Arguments {
    /// The flow.
    #[arg(long)]
    flow: FlowName,
    /// The state of the runs.
    #[arg(long, default_value = "failed")]
    state: RunStatus,
    /// Accepted at this time or later, e.g. 2026-11-01T00:00:00Z.
    #[arg(long, value_name = "TIME")]
    since: Option<Timestamp>,
    /// Accepted before this time.
    #[arg(long, value_name = "TIME")]
    until: Option<Timestamp>,
    /// Only those that failed with this code.
    #[arg(long, value_name = "CODE")]
    error: Option<String>,
    /// The most runs that are replayed in a second, from 1 to 100.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(i32).range(1..=100))]
    per_second: i32,
    /// The reason, for the audit log.
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    repeat: Repeat,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let asked = PlanReplay {
        flow: arguments.flow.clone(),
        state: Some(arguments.state),
        since: arguments.since,
        until: arguments.until,
        error: arguments.error.clone(),
        per_second: Some(arguments.per_second),
        reason: arguments.reason.clone(),
    };
    // Asked again, it is another plan: other runs may have failed since.
    let key = match arguments.repeat.given() {
        Some(key) => key.to_owned(),
        None => semel_model::DeliveryId::generate().to_string(),
    };
    let plan = remote::client(ctx)?.plan_replay(&asked, &key).await?.body;
    let next = format!("semel replay show {}", plan.plan);
    Ok(Answer::done(&plan, replay_plan::detail(&plan, ctx.style)).next(next))
}
