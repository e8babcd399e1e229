//! `semel run`: executions of flows.

mod cancel;
mod list;
mod show;
mod start;
mod watch;

use semel_api::types::Run;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::outcome::Outcome;

/// Start runs and look at them.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  semel run start greet --input '{\"id\":\"1\",\"name\":\"Ada\"}' --wait 30s
  semel run list --state in_doubt
  semel run show run_0123…")]
pub(crate) enum Command {
    Start(start::Arguments),
    List(list::Arguments),
    Show(show::Arguments),
    Watch(watch::Arguments),
    Cancel(cancel::Arguments),
}

pub(crate) async fn run(ctx: &Context, command: &Command) -> Result<Answer, Problem> {
    match command {
        Command::Start(arguments) => start::run(ctx, arguments).await,
        Command::List(arguments) => list::run(ctx, arguments).await,
        Command::Show(arguments) => show::run(ctx, arguments).await,
        Command::Watch(arguments) => watch::run(ctx, arguments).await,
        Command::Cancel(arguments) => cancel::run(ctx, arguments).await,
    }
}

/// An answer that stands or falls with a run: its outcome, and what to do about it.
fn judged(answer: Answer, run: &Run) -> Answer {
    let outcome = Outcome::of_run(run.state.state());
    let id = run.id;
    let answer = match outcome {
        Outcome::Running => answer.next(format!("semel run watch {id}")),
        Outcome::InDoubt => answer.next("semel doubt list"),
        _ => answer,
    };
    let answer = answer.next(format!("semel run show {id}"));
    match outcome {
        Outcome::Done => answer,
        Outcome::Running => answer.with_fault(outcome, "run-not-ended", "the run has not ended"),
        Outcome::InDoubt => {
            let message = "nobody can say whether an effect of the run happened";
            answer.with_fault(outcome, "run-in-doubt", message)
        }
        _ => answer.with_fault(outcome, "run-failed", &failure(run)),
    }
}

fn failure(run: &Run) -> String {
    let state = run.state;
    match &run.fault {
        Some(fault) => format!(
            "the run is {state}: {}",
            crate::views::run::fault_text(fault)
        ),
        None => format!("the run is {state}"),
    }
}
