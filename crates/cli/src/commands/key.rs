//! `semel key`: what is known of a key.

mod audit;
mod drop;
mod show;

use crate::answer::{Answer, Problem};
use crate::context::Context;

/// Show, audit and free keys.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Show(show::Arguments),
    Drop(drop::Arguments),
    Audit(audit::Arguments),
}

pub(crate) async fn run(ctx: &Context, command: &Command) -> Result<Answer, Problem> {
    match command {
        Command::Show(arguments) => show::run(ctx, arguments).await,
        Command::Drop(arguments) => drop::run(ctx, arguments).await,
        Command::Audit(arguments) => audit::run(ctx, arguments).await,
    }
}
