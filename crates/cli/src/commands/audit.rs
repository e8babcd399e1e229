//! `semel audit`: what operators did, by whom and why.

mod export;
mod list;
mod verify;

use crate::answer::{Answer, Problem};
use crate::context::Context;

/// Show, export and verify the audit record.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  semel audit list --action flow.promote --since 2026-11-01T00:00:00Z
  semel audit export audit.jsonl
  semel audit verify audit.jsonl")]
pub(crate) enum Command {
    List(list::Arguments),
    Export(export::Arguments),
    Verify(verify::Arguments),
}

pub(crate) async fn run(ctx: &Context, command: &Command) -> Result<Answer, Problem> {
    match command {
        Command::List(arguments) => list::run(ctx, arguments).await,
        Command::Export(arguments) => export::run(ctx, arguments).await,
        Command::Verify(arguments) => verify::run(arguments),
    }
}
