//! `semel replay apply`.

use super::change::{PlanArguments, change};
use crate::answer::{Answer, Problem};
use crate::context::Context;

/// Replay the runs of a plan that is planned or paused, each as its preview showed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  semel replay apply plan_0123…")]
pub(crate) struct Arguments {
    #[command(flatten)]
    plan: PlanArguments,
    /// The most runs that are replayed in a second, from 1 to 100; as planned, by default.
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..=100))]
    per_second: Option<i32>,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let (rate, meaning) = (
        arguments.per_second,
        "its runs are replayed in the background",
    );
    change(ctx, &arguments.plan, "apply", rate, meaning).await
}
