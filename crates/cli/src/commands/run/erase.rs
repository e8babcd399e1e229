//! `semel run erase`: erases what was said in the runs of a key.

use semel_api::types::EraseRun;
use semel_model::RunId;

use crate::answer::{Answer, Problem};
use crate::commands::Repeat;
use crate::context::Context;
use crate::remote;

/// Erase the payloads of all runs of a run's key, for good.
///
/// Inputs, results, requests, responses, waits, tasks, approvals, duplicates and resources go. That the
/// runs took place, their keys, states, times and effects stay, so that a repeat still finds its run and
/// no effect happens twice. The runs cannot be resumed or replayed afterwards.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  semel run erase run_0123… --reason 'request 2026-118 of a customer'"
)]
pub(crate) struct Arguments {
    /// The run. All runs of its key are erased, with their items and branches.
    run: RunId,
    /// The reason, for the audit log.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    repeat: Repeat,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let (run, reason) = (arguments.run, arguments.reason.clone());
    let key = arguments
        .repeat
        .key_or(&["run erase", &run.to_string(), &reason]);
    let erased = remote::client(ctx)?
        .erase_run(run, &EraseRun { reason }, &key)
        .await?
        .body;
    let mut text = format!(
        "erased: {} run(s), {} resource(s)\nnot reached:\n",
        erased.runs, erased.resources
    );
    for left in &erased.not_reached {
        text.push_str(&format!("  {left}\n"));
    }
    for other in &erased.started {
        text.push_str(&format!("    {other}\n"));
    }
    let answer = Answer::done(&erased, text.trim_end().to_owned());
    Ok(answer.next(format!("semel run show {run}")))
}
