//! `semel reconcile`: what a source lists, compared with the runs of a flow.

mod list;
mod run;
mod show;

use crate::answer::{Answer, Problem};
use crate::context::Context;

/// Compare what a source lists with the runs of a flow, and start what no delivery brought.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Run(run::Arguments),
    List(list::Arguments),
    Show(show::Arguments),
}

pub(crate) async fn run(ctx: &Context, command: &Command) -> Result<Answer, Problem> {
    match command {
        Command::Run(arguments) => run::run(ctx, arguments).await,
        Command::List(arguments) => list::run(ctx, arguments).await,
        Command::Show(arguments) => show::run(ctx, arguments).await,
    }
}
