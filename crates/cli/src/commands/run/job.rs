//! `semel run job`: how far a bulk command is.

use semel_model::RunJobId;

use super::many;
use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::style::{cell, render};

/// Show how far the cancelling or resuming of many runs is, and which runs it was refused for.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The job; without it, the latest jobs are listed.
    job: Option<RunJobId>,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let client = remote::client(ctx)?;
    let Some(job) = arguments.job else {
        let page = client.list_run_jobs().await?;
        let lines: Vec<String> = page.items.iter().map(many::tell).collect();
        return Ok(Answer::done(&page, lines.join("\n")));
    };
    let found = client.get_run_job(job).await?;
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
