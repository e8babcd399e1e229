//! `semel kv`: the small state that flows share.

mod get;
mod list;

use crate::answer::{Answer, Problem};
use crate::context::Context;

/// List and read entries of `kv`, the state that flows share.
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
