//! `semel run job`: how far a bulk command is.

use semel_api::types::{RunJobFilter, StopRunJob};
use semel_model::RunJobId;

use super::many;
use crate::answer::{Answer, Problem};
use crate::commands::Repeat;
use crate::context::Context;
use crate::paging::{PageArguments, more};
use crate::remote;
use crate::style::{cell, render};

/// Show how far the cancelling or resuming of many runs is, and which runs it was refused for; or stop it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  semel run job job_0123… --stop --reason 'the wrong flow'")]
pub(crate) struct Arguments {
    /// The job; without it, the latest jobs are listed.
    job: Option<RunJobId>,
    /// Stop it: what is left of it is left alone.
    #[arg(long, requires_all = ["job", "reason"])]
    stop: bool,
    /// The reason, for the audit record.
    #[arg(long, requires = "stop")]
    reason: Option<String>,
    #[command(flatten)]
    repeat: Repeat,
    #[command(flatten)]
    page: PageArguments,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let client = remote::client(ctx)?;
    let Some(job) = arguments.job else {
        let filter = RunJobFilter {
            limit: arguments.page.limit,
            cursor: arguments.page.cursor.clone(),
        };
        let page = client.list_run_jobs(&filter).await?;
        let lines: Vec<String> = page.items.iter().map(many::tell).collect();
        let answer = Answer::done(&page, lines.join("\n"));
        return Ok(more(answer, page.next.as_deref()));
    };
    let found = match (arguments.stop, &arguments.reason) {
        (true, Some(reason)) => {
            let key = ["run job stop", &job.to_string(), reason];
            let key = arguments.repeat.key_or(&key);
            let stop = StopRunJob {
                reason: reason.clone(),
            };
            client.stop_run_job(job, &stop, &key).await?.body
        }
        _ => client.get_run_job(job).await?,
    };
    let mut text = many::tell(&found);
    if !found.refusals.is_empty() {
        let mut table = ctx.style.table(&["RUN", "REFUSED", "WHY"]);
        for refused in &found.refusals {
            table.add_row([
                cell(refused.run.to_string()),
                cell(&refused.code),
                cell(&refused.note),
            ]);
        }
        text.push_str(&format!("\n\n{}", render(&table)));
    }
    Ok(Answer::done(&found, text))
}
