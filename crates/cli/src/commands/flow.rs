//! `semel flow`: what authors write, and which release is live.

mod diff;
mod fmt;
mod list;
mod pause;
mod promote;
mod publish;
mod push;
mod releases;
mod resume;
mod schema;
mod show;
mod r#try;

use crate::answer::{Answer, Problem};
use crate::context::Context;

/// Format, try, push, publish, promote, list, show, compare, pause and resume flows.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Example, from a file to a live release:
  semel flow push greet.flow.yaml
  semel flow publish greet
  semel flow promote greet")]
pub(crate) enum Command {
    Push(push::Arguments),
    Publish(publish::Arguments),
    Promote(promote::Arguments),
    List(list::Arguments),
    Show(show::Arguments),
    Releases(releases::Arguments),
    Pause(pause::Arguments),
    Resume(resume::Arguments),
    Diff(diff::Arguments),
    Try(r#try::Arguments),
    Fmt(fmt::Arguments),
    Schema(schema::Arguments),
}

pub(crate) async fn run(ctx: &Context, command: &Command) -> Result<Answer, Problem> {
    match command {
        Command::Push(arguments) => push::run(ctx, arguments).await,
        Command::Publish(arguments) => publish::run(ctx, arguments).await,
        Command::Promote(arguments) => promote::run(ctx, arguments).await,
        Command::List(arguments) => list::run(ctx, arguments).await,
        Command::Show(arguments) => show::run(ctx, arguments).await,
        Command::Releases(arguments) => releases::run(ctx, arguments).await,
        Command::Pause(arguments) => pause::run(ctx, arguments).await,
        Command::Resume(arguments) => resume::run(ctx, arguments).await,
        Command::Diff(arguments) => diff::run(ctx, arguments).await,
        Command::Try(arguments) => r#try::run(ctx, arguments).await,
        Command::Fmt(arguments) => fmt::run(arguments),
        Command::Schema(arguments) => schema::run(arguments),
    }
}
