//! `semel approval`: what people are asked to decide.

mod decide;
mod list;
mod show;

use crate::answer::{Answer, Problem};
use crate::context::Context;

/// List, show, approve and reject approvals.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  semel approval list
  semel approval show wait_0123…
  semel approval approve wait_0123… --comment 'checked against the order'")]
pub(crate) enum Command {
    List(list::Arguments),
    Show(show::Arguments),
    /// Approve what is shown.
    Approve(decide::Arguments),
    /// Reject what is shown: the run fails.
    Reject(decide::Arguments),
}

pub(crate) async fn run(ctx: &Context, command: &Command) -> Result<Answer, Problem> {
    match command {
        Command::List(arguments) => list::run(ctx, arguments).await,
        Command::Show(arguments) => show::run(ctx, arguments).await,
        Command::Approve(arguments) => decide::run(ctx, arguments, true).await,
        Command::Reject(arguments) => decide::run(ctx, arguments, false).await,
    }
}
