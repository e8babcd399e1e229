//! `semel secret`: values that Semel uses and never shows.

mod delete;
mod list;
mod rotate;
mod set;

use crate::answer::{Answer, Problem};
use crate::context::Context;

/// Set, list, delete and re-encrypt secrets. No command shows a value.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  semel secret set stripe_key               asks, without showing what is typed
  pass show stripe | semel secret set stripe_key")]
pub(crate) enum Command {
    Set(set::Arguments),
    List(list::Arguments),
    Delete(delete::Arguments),
    Rotate(rotate::Arguments),
}

pub(crate) async fn run(ctx: &Context, command: &Command) -> Result<Answer, Problem> {
    match command {
        Command::Set(arguments) => set::run(ctx, arguments).await,
        Command::List(arguments) => list::run(ctx, arguments).await,
        Command::Delete(arguments) => delete::run(ctx, arguments).await,
        Command::Rotate(arguments) => rotate::run(ctx, arguments).await,
    }
}
