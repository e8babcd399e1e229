//! `semel wait`: durable pauses.

mod complete;
mod list;
mod show;

use crate::answer::{Answer, Problem};
use crate::context::Context;

/// List waits of runs, and complete them.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    List(list::Arguments),
    Show(show::Arguments),
    Complete(complete::Arguments),
}

pub(crate) async fn run(ctx: &Context, command: &Command) -> Result<Answer, Problem> {
    match command {
        Command::List(arguments) => list::run(ctx, arguments).await,
        Command::Show(arguments) => show::run(ctx, arguments).await,
        Command::Complete(arguments) => complete::run(ctx, arguments).await,
    }
}
