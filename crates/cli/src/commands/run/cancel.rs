//! `semel run cancel`: requests the end of a run.

use semel_api::types::{Cancel, RunJobVerb};
use semel_model::RunId;

use super::many::{self, Many};
use crate::answer::{Answer, Problem};
use crate::commands::Repeat;
use crate::context::Context;
use crate::remote;

/// Cancel a run. It ends at its next commit; its finished effects stay done.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  semel run cancel run_0123… --reason 'ordered by mistake'")]
pub(crate) struct Arguments {
    /// The run; without it, `--flow` says which runs.
    #[arg(required_unless_present = "flow", requires = "reason")]
    run: Option<RunId>,
    #[command(flatten)]
    many: Many,
    /// The reason, for the audit log.
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    repeat: Repeat,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let Some(run) = arguments.run else {
        let (many, repeat) = (&arguments.many, &arguments.repeat);
        let reason = arguments.reason.as_deref();
        return many::run(ctx, RunJobVerb::Cancel, many, reason, repeat).await;
    };
    let reason = arguments.reason.clone().unwrap_or_default();
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
