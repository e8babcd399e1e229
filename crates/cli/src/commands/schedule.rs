//! `semel schedule`: runs that start at scheduled times.

mod fire;
mod list;
mod next;
mod pause;
mod resume;
mod show;

use crate::answer::{Answer, Problem};
use crate::context::Context;

/// List, show, pause and resume schedules, and start the run of an instant by hand.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    List(list::Arguments),
    Show(show::Arguments),
    Next(next::Arguments),
    Pause(pause::Arguments),
    Resume(resume::Arguments),
    Fire(fire::Arguments),
}

pub(crate) async fn run(ctx: &Context, command: &Command) -> Result<Answer, Problem> {
    match command {
        Command::List(arguments) => list::run(ctx, arguments).await,
        Command::Show(arguments) => show::run(ctx, arguments).await,
        Command::Next(arguments) => next::run(ctx, arguments).await,
        Command::Pause(arguments) => pause::run(ctx, arguments).await,
        Command::Resume(arguments) => resume::run(ctx, arguments).await,
        Command::Fire(arguments) => fire::run(ctx, arguments).await,
    }
}
