//! `semel effect`: the ledger of changes to the outside world.

mod amend;
mod list;
mod redo;
mod show;
mod undo;

use crate::answer::{Answer, Problem};
use crate::context::Context;

/// Show effects: the changes to the outside world; undo or redo one, or correct a recorded result.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Amend(amend::Arguments),
    List(list::Arguments),
    Redo(redo::Arguments),
    Show(show::Arguments),
    Undo(undo::Arguments),
}

pub(crate) async fn run(ctx: &Context, command: &Command) -> Result<Answer, Problem> {
    match command {
        Command::Amend(arguments) => amend::run(ctx, arguments).await,
        Command::List(arguments) => list::run(ctx, arguments).await,
        Command::Redo(arguments) => redo::run(ctx, arguments).await,
        Command::Show(arguments) => show::run(ctx, arguments).await,
        Command::Undo(arguments) => undo::run(ctx, arguments).await,
    }
}
