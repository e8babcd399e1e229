//! `semel run resume`: resumes a run that failed or used up its retries.

use semel_api::types::{Resume, RunJobVerb};
use semel_model::RunId;

use super::many::{self, Many};
use crate::answer::{Answer, Problem};
use crate::commands::Repeat;
use crate::context::Context;
use crate::remote;

/// Resume a run that failed or used up its retries. Finished steps are not performed again; of a
/// list, only the failed items are retried.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  semel run resume run_0123… --reason 'the bank is back'
  semel run resume run_0123… --ask-again --reason 'the amount was corrected'")]
pub(crate) struct Arguments {
    /// The run; without it, `--flow` says which runs.
    #[arg(required_unless_present = "flow", requires = "reason")]
    run: Option<RunId>,
    #[command(flatten)]
    many: Many,
    /// The reason, for the audit log.
    #[arg(long)]
    reason: Option<String>,
    /// Ask the people again who rejected an approval. Without it, a run that failed by a rejection
    /// is not resumed.
    #[arg(long)]
    ask_again: bool,
    #[command(flatten)]
    repeat: Repeat,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let Some(run) = arguments.run else {
        let (many, repeat) = (&arguments.many, &arguments.repeat);
        let reason = arguments.reason.as_deref();
        return many::run(ctx, RunJobVerb::Resume, many, reason, repeat).await;
    };
    let resume = Resume {
        reason: arguments.reason.clone().unwrap_or_default(),
        ask_again: arguments.ask_again,
    };
    let client = remote::client(ctx)?;
    // Said again of the same status it is the same command; said after another failure, another.
    let reached = client.get_run(run).await?.journal.len().to_string();
    let how = if resume.ask_again { "ask again" } else { "" };
    let words = ["run resume", &run.to_string(), &reached, how];
    let key = arguments.repeat.key_or(&words);
    let resumed = client.resume_run(run, &resume, &key).await?.body;
    let text = format!("{run} is resumed: finished steps are not performed again");
    Ok(Answer::done(&resumed, text).next(format!("semel run watch {run}")))
}
