//! `semel run`: executions of flows.

mod cancel;
mod erase;
mod items;
mod job;
mod list;
mod many;
mod person;
mod replay;
mod resume;
mod show;
mod start;
mod watch;

use semel_api::types::Run;
use semel_model::run::RunState;

use crate::answer::{Answer, Problem};
use crate::code;
use crate::context::Context;
use crate::outcome::Outcome;

/// Start, list, show, watch, cancel, resume, replay and erase runs.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  semel run start greet --input '{\"id\":\"1\",\"name\":\"Ada\"}' --wait 30s
  semel run list --state in_doubt
  semel run show run_0123…")]
pub(crate) enum Command {
    Start(start::Arguments),
    #[command(visible_alias = "ls")]
    List(list::Arguments),
    Show(show::Arguments),
    Watch(watch::Arguments),
    Items(items::Arguments),
    Cancel(cancel::Arguments),
    Resume(resume::Arguments),
    Erase(erase::Arguments),
    Job(job::Arguments),
    Replay(replay::Arguments),
}

pub(crate) async fn run(ctx: &Context, command: &Command) -> Result<Answer, Problem> {
    match command {
        Command::Start(arguments) => start::run(ctx, arguments).await,
        Command::List(arguments) => list::run(ctx, arguments).await,
        Command::Show(arguments) => show::run(ctx, arguments).await,
        Command::Watch(arguments) => watch::run(ctx, arguments).await,
        Command::Items(arguments) => items::run(ctx, arguments).await,
        Command::Cancel(arguments) => cancel::run(ctx, arguments).await,
        Command::Resume(arguments) => resume::run(ctx, arguments).await,
        Command::Erase(arguments) => erase::run(ctx, arguments).await,
        Command::Job(arguments) => job::run(ctx, arguments).await,
        Command::Replay(arguments) => replay::run(ctx, arguments).await,
    }
}

/// An answer that has the outcome of a run, and says what to do about it.
fn judged(answer: Answer, run: &Run) -> Answer {
    let show = format!("semel run show {}", run.id);
    let state = run.state.state();
    let outcome = Outcome::of_run(state);
    match state {
        RunState::Succeeded => answer.next(show),
        RunState::Active => answer
            .next(format!("semel run watch {}", run.id))
            .with_fault(outcome, code::RUN_UNDER_WAY, "the run has not ended"),
        RunState::InDoubt => {
            let message = "whether an effect of the run happened is unknown";
            answer.next("semel doubt list").next(show).with_fault(
                outcome,
                code::RUN_IN_DOUBT,
                message,
            )
        }
        RunState::NeedsReview | RunState::Quarantined | RunState::Failed => answer
            .next(show)
            .decision(
                "to resume it",
                format!("semel run resume {} --reason '…'", run.id),
            )
            .with_fault(outcome, code::RUN_FAILED, &failure(run)),
        RunState::Cancelled | RunState::Superseded => {
            answer
                .next(show)
                .with_fault(outcome, code::RUN_FAILED, &failure(run))
        }
    }
}

fn failure(run: &Run) -> String {
    let state = run.state;
    match &run.fault {
        Some(fault) => format!("the run is {state}: {}", crate::views::fault_text(fault)),
        None => format!("the run is {state}"),
    }
}
