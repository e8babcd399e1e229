//! `semel replay`: replays of many runs.

mod apply;
mod change;
mod list;
mod pause;
mod plan;
mod runs;
mod show;
mod stop;

use crate::answer::{Answer, Problem};
use crate::context::Context;

/// Replay many runs: plan, look at the previews, apply.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Example:
  semel replay plan --flow orders --state failed --since 2026-11-01T00:00:00Z --reason 'fixed in r4'
  semel replay show plan_0123…
  semel replay apply plan_0123…")]
pub(crate) enum Command {
    Plan(plan::Arguments),
    List(list::Arguments),
    Show(show::Arguments),
    Runs(runs::Arguments),
    Apply(apply::Arguments),
    Pause(pause::Arguments),
    Stop(stop::Arguments),
}

pub(crate) async fn run(ctx: &Context, command: &Command) -> Result<Answer, Problem> {
    match command {
        Command::Plan(arguments) => plan::run(ctx, arguments).await,
        Command::List(arguments) => list::run(ctx, arguments).await,
        Command::Show(arguments) => show::run(ctx, arguments).await,
        Command::Runs(arguments) => runs::run(ctx, arguments).await,
        Command::Apply(arguments) => apply::run(ctx, arguments).await,
        Command::Pause(arguments) => pause::run(ctx, arguments).await,
        Command::Stop(arguments) => stop::run(ctx, arguments).await,
    }
}
