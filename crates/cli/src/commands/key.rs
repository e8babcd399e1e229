//! `semel key`: what is known of a key.

mod audit;
mod drop;
mod list;
mod show;

use crate::answer::{Answer, Problem};
use crate::context::Context;

/// List, show, audit and free keys.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    List(list::Arguments),
    Show(show::Arguments),
    Drop(drop::Arguments),
    Audit(audit::Arguments),
}

pub(crate) async fn run(ctx: &Context, command: &Command) -> Result<Answer, Problem> {
    match command {
        Command::List(arguments) => list::run(ctx, arguments).await,
        Command::Show(arguments) => show::run(ctx, arguments).await,
        Command::Drop(arguments) => drop::run(ctx, arguments).await,
        Command::Audit(arguments) => audit::run(ctx, arguments).await,
    }
}
