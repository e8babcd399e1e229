//! `semel connection`: where destinations are, and how Semel authenticates there.

mod create;
mod delete;
mod describe;
mod list;
mod paths;
mod pause;
mod prepare;
mod presets;
mod resume;
mod show;
mod test;

use semel_api::types::Tried;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::outcome::Outcome;
use crate::text::printable;

/// Create, list, test, pause, resume and delete connections to destinations.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Example, from nothing to a payment provider:
  semel connection create stripe --preset stripe --secret stripe_key
  semel secret set stripe_key
  semel connection test stripe")]
pub(crate) enum Command {
    Create(Box<create::Arguments>),
    List(list::Arguments),
    Show(show::Arguments),
    Pause(pause::Arguments),
    Resume(resume::Arguments),
    Test(test::Arguments),
    Prepare(prepare::Arguments),
    Delete(delete::Arguments),
    Presets(presets::Arguments),
}

pub(crate) async fn run(ctx: &Context, command: &Command) -> Result<Answer, Problem> {
    match command {
        Command::Create(arguments) => create::run(ctx, arguments).await,
        Command::List(arguments) => list::run(ctx, arguments).await,
        Command::Show(arguments) => show::run(ctx, arguments).await,
        Command::Pause(arguments) => pause::run(ctx, arguments).await,
        Command::Resume(arguments) => resume::run(ctx, arguments).await,
        Command::Test(arguments) => test::run(ctx, arguments).await,
        Command::Prepare(arguments) => prepare::run(ctx, arguments).await,
        Command::Delete(arguments) => delete::run(ctx, arguments).await,
        Command::Presets(arguments) => Ok(presets::run(ctx, arguments)),
    }
}

/// The result of a connection test.
fn tell(tried: &Tried) -> Answer {
    let found = format!("{}: {}", printable(&tried.name), printable(&tried.found));
    if tried.ok {
        return Answer::done(tried, found);
    }
    let code = tried.code.as_deref().unwrap_or("no-connection");
    Answer::done(tried, "").with_fault(Outcome::Failed, code, &found)
}
