//! `semel resource`: large outputs that are kept by reference.

mod get;
mod list;
mod put;

use crate::answer::{Answer, Problem};
use crate::context::Context;

/// List, fetch and upload resources: values too large for a run's journal.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    List(list::Arguments),
    Get(get::Arguments),
    #[command(visible_alias = "upload")]
    Put(put::Arguments),
}

pub(crate) async fn run(ctx: &Context, command: &Command) -> Result<Answer, Problem> {
    match command {
        Command::List(arguments) => list::run(ctx, arguments).await,
        Command::Get(arguments) => get::run(ctx, arguments).await,
        Command::Put(arguments) => put::run(ctx, arguments).await,
    }
}
