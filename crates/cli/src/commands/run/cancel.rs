//! `semel run cancel`: asks for a run's end.

use semel_api::types::Cancel;
use semel_model::RunId;

use crate::answer::{Answer, Problem};
use crate::commands::Repeat;
use crate::context::Context;
use crate::remote;

/// Ask for a run's end. It ends at its next commit; what it did stays done.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  semel run cancel run_0123… --reason 'ordered by mistake'")]
pub(crate) struct Arguments {
    /// The run.
    run: RunId,
    /// Why, as it stands on the record.
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
    let text = format!("the end of {run} is asked for; it comes with its next commit");
    Ok(Answer::done(&cancelled, text).next(format!("semel run watch {run}")))
}
