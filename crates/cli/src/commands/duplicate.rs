//! `semel duplicate`: duplicates that were stopped.

mod list;
mod show;

use crate::answer::{Answer, Problem};
use crate::context::Context;

/// Show duplicates that were stopped.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    List(list::Arguments),
    Show(show::Arguments),
}

pub(crate) async fn run(ctx: &Context, command: &Command) -> Result<Answer, Problem> {
    match command {
        Command::List(arguments) => list::run(ctx, arguments).await,
        Command::Show(arguments) => show::run(ctx, arguments).await,
    }
}
