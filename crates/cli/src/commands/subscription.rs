//! `semel subscription`: webhooks that receive events.

mod create;
mod delete;
mod list;
mod retry;
mod show;

use crate::answer::{Answer, Problem};
use crate::context::Context;

/// Deliver events to webhooks, and show the deliveries.
#[derive(Debug, clap::Subcommand)]
#[command(
    after_help = "Example, from nothing to a receiver of every order event:
  semel connection create erp-hook --kind webhook --base-url https://erp.example/hooks --secret erp_signing
  semel secret set erp_signing
  semel subscription create erp --event 'order.*' --connection erp-hook"
)]
pub(crate) enum Command {
    Create(create::Arguments),
    List(list::Arguments),
    Show(show::Arguments),
    Retry(retry::Arguments),
    Delete(delete::Arguments),
}

pub(crate) async fn run(ctx: &Context, command: &Command) -> Result<Answer, Problem> {
    match command {
        Command::Create(arguments) => create::run(ctx, arguments).await,
        Command::List(arguments) => list::run(ctx, arguments).await,
        Command::Show(arguments) => show::run(ctx, arguments).await,
        Command::Retry(arguments) => retry::run(ctx, arguments).await,
        Command::Delete(arguments) => delete::run(ctx, arguments).await,
    }
}
