//! `semel alert`: where people learn of doubts, stopped runs, held deliveries and approvals.

mod list;
mod set;
mod test;
mod unset;

use crate::answer::{Answer, Problem};
use crate::context::Context;

/// Send alerts about doubts, stopped runs, held deliveries and approvals to people.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Example, from nothing to alerts by mail:
  semel connection create ops-mail --kind smtp --host mail.example.com --from semel@example.com
  semel alert set ops-mail --to ops@example.com
  semel alert test")]
pub(crate) enum Command {
    #[command(visible_alias = "create")]
    Set(set::Arguments),
    Unset(unset::Arguments),
    List(list::Arguments),
    Test(test::Arguments),
}

pub(crate) async fn run(ctx: &Context, command: &Command) -> Result<Answer, Problem> {
    match command {
        Command::Set(arguments) => set::run(ctx, arguments).await,
        Command::Unset(arguments) => unset::run(ctx, arguments).await,
        Command::List(arguments) => list::run(ctx, arguments).await,
        Command::Test(arguments) => test::run(ctx, arguments).await,
    }
}
