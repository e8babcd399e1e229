//! `semel run cancel`: requests the end of a run.

use semel_api::types::Cancel;
use semel_model::RunId;

use crate::answer::{Answer, Problem};
use crate::commands::Repeat;
use crate::context::Context;
use crate::remote;

/// Cancel a run. It ends at its next commit; its finished effects stay done.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  semel run cancel run_0123… --reason 'ordered by mistake'")]
pub(crate) struct Arguments {
    /// The run.
    run: RunId,
    /// The reason, for the audit log.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    repeat: Repeat,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let run = arguments.run;
    let reason = arguments.reason.clone();
    let key = arguments
        .repeat
        .key_or(&["run cancel", &run.to_string(), &reason]);
    let cancelled = remote::client(ctx)?
        .cancel_run(run, &Cancel { reason }, &key)
        .await?
        .body;
    let text = format!("{run} is being cancelled; it ends at its next commit");
    Ok(Answer::done(&cancelled, text).next(format!("semel run watch {run}")))
}
