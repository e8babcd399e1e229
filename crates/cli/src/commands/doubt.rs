//! `semel doubt`: effects with an unknown outcome.

mod list;
mod settle;

use crate::answer::{Answer, Problem};
use crate::context::Context;

/// List and settle effects whose outcome is unknown.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    List(list::Arguments),
    Settle(Box<settle::Arguments>),
}

pub(crate) async fn run(ctx: &Context, command: &Command) -> Result<Answer, Problem> {
    match command {
        Command::List(arguments) => list::run(ctx, arguments).await,
        Command::Settle(arguments) => settle::run(ctx, arguments).await,
    }
}
