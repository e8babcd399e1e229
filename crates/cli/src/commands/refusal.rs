//! `semel refusal`: deliveries that were refused.

mod list;

use crate::answer::{Answer, Problem};
use crate::context::Context;

/// Show deliveries that were refused.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    List(list::Arguments),
}

pub(crate) async fn run(ctx: &Context, command: &Command) -> Result<Answer, Problem> {
    match command {
        Command::List(arguments) => list::run(ctx, arguments).await,
    }
}
