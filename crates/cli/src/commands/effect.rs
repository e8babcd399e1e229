//! `semel effect`: the ledger of changes to the outside world.

mod amend;
mod list;
mod operator_step;
mod show;

use semel_model::event::StepVerb;

use crate::answer::{Answer, Problem};
use crate::context::Context;

/// Show effects: the changes to the outside world; undo or redo one, or correct a recorded result.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Amend(amend::Arguments),
    List(list::Arguments),
    /// Perform one done effect of an ended run again, under a new key.
    ///
    /// This is the only way to perform a done effect again. The run then ends as it had ended.
    #[command(after_help = "Example:
  semel effect redo eff_0123… --reason 'the customer asked for it'")]
    Redo(operator_step::Arguments),
    Show(show::Arguments),
    /// Undo one done effect of an ended run, by what its step declares under `undo`.
    ///
    /// The run performs that one request, under a key of its own, and then ends as it had ended.
    #[command(after_help = "Example:
  semel effect undo eff_0123… --reason 'the customer asked for it'")]
    Undo(operator_step::Arguments),
}

pub(crate) async fn run(ctx: &Context, command: &Command) -> Result<Answer, Problem> {
    match command {
        Command::Amend(arguments) => amend::run(ctx, arguments).await,
        Command::List(arguments) => list::run(ctx, arguments).await,
        Command::Redo(arguments) => operator_step::run(ctx, StepVerb::Redo, arguments).await,
        Command::Show(arguments) => show::run(ctx, arguments).await,
        Command::Undo(arguments) => operator_step::run(ctx, StepVerb::Undo, arguments).await,
    }
}
