//! `semel duplicate`: duplicates that were stopped, and decisions about what is held.

mod accept;
mod dismiss;
mod list;
mod show;

use crate::answer::{Answer, Problem};
use crate::context::Context;

/// Show duplicates that were stopped, and decide about deliveries that are held.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    List(list::Arguments),
    Show(show::Arguments),
    Accept(accept::Arguments),
    Dismiss(dismiss::Arguments),
}

pub(crate) async fn run(ctx: &Context, command: &Command) -> Result<Answer, Problem> {
    match command {
        Command::List(arguments) => list::run(ctx, arguments).await,
        Command::Show(arguments) => show::run(ctx, arguments).await,
        Command::Accept(arguments) => accept::run(ctx, arguments).await,
        Command::Dismiss(arguments) => dismiss::run(ctx, arguments).await,
    }
}
