//! `semel doubt`: effects with an unknown outcome.

mod attend;
mod list;
mod settle;

use crate::answer::{Answer, Problem};
use crate::context::Context;

/// List, look into and settle effects whose outcome is unknown.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    List(list::Arguments),
    Settle(Box<settle::Arguments>),
    Assign(attend::Assign),
    Note(attend::Note),
    Snooze(attend::Snooze),
}

pub(crate) async fn run(ctx: &Context, command: &Command) -> Result<Answer, Problem> {
    match command {
        Command::List(arguments) => list::run(ctx, arguments).await,
        Command::Settle(arguments) => settle::run(ctx, arguments).await,
        Command::Assign(arguments) => attend::assign(ctx, arguments).await,
        Command::Note(arguments) => attend::note(ctx, arguments).await,
        Command::Snooze(arguments) => attend::snooze(ctx, arguments).await,
    }
}
