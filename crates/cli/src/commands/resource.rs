//! `semel resource`: large outputs that are kept by reference.

mod get;
mod list;

use crate::answer::{Answer, Problem};
use crate::context::Context;

/// List and fetch large outputs of runs.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    List(list::Arguments),
    Get(get::Arguments),
}

pub(crate) async fn run(ctx: &Context, command: &Command) -> Result<Answer, Problem> {
    match command {
        Command::List(arguments) => list::run(ctx, arguments).await,
        Command::Get(arguments) => get::run(ctx, arguments).await,
    }
}
