//! `semel task`: work for programs of yours.

mod list;
mod show;

use crate::answer::{Answer, Problem};
use crate::context::Context;

/// List and show tasks: work for programs of yours, which `semel worker` runs.
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
