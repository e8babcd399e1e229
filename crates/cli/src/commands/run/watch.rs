//! `semel run watch`: what happens to a run, as it happens.

use semel_api::Client;
use semel_api::types::RunDetail;
use semel_model::run::RunState;
use semel_model::{RunId, Span};

use super::judged;
use super::person::{Idle, Wanted};
use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::output::{self, Reader};
use crate::remote;
use crate::views::{self, Extent};

/// How long the journal may stay unread while the run continues.
const LOOK_EVERY_MS: u64 = 500;

/// Show what happens to a run until it ends or needs a person.
///
/// It needs one if an effect is in doubt, if it used up its retries, if an approval is open, or if
/// no worker has taken its task for ten seconds. The exit code is the run's: 0 succeeded, 1 failed
/// or used up its retries, 4 in doubt; and 3 if it waits for a person or --for ran out first.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The run.
    run: RunId,
    /// Watch at most this long.
    #[arg(long = "for", value_name = "SPAN")]
    patience: Option<Span>,
    /// Show the whole result, however long it is.
    #[arg(long)]
    full: bool,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let client = remote::client(ctx)?;
    let watching = watch(ctx, &client, arguments.run);
    let (found, wanted) = match arguments.patience {
        None => watching.await?,
        Some(span) => match tokio::time::timeout(span.to_duration(), watching).await {
            Ok(found) => found?,
            Err(_) => {
                let found = client.get_run(arguments.run).await?;
                let wanted = Wanted::find(&client, &found).await?;
                (found, wanted)
            }
        },
    };
    let text = views::run::head(&found.run, Extent::of(arguments.full), ctx.style);
    Ok(wanted.tell(judged(Answer::done(&found, text), &found.run)))
}

/// Prints new lines of the journal until there will be no more without a person.
async fn watch(ctx: &Context, client: &Client, run: RunId) -> Result<(RunDetail, Wanted), Problem> {
    let mut told = 0;
    let mut idle = Idle::default();
    loop {
        let found = client.get_run(run).await?;
        if ctx.reader == Reader::Person {
            told = tell(ctx, &found, told);
        }
        if found.run.state.state() != RunState::Active {
            return Ok((found, Wanted::default()));
        }
        let wanted = Wanted::find(client, &found).await?;
        if idle.needs_person(&wanted) {
            return Ok((found, wanted));
        }
        // Returns early when the run ends.
        client
            .await_run(run, Span::from_millis(LOOK_EVERY_MS))
            .await?;
    }
}

/// Prints the lines after those that were printed. A journal only grows.
fn tell(ctx: &Context, found: &RunDetail, told: usize) -> usize {
    let fresh = found.journal.get(told..).unwrap_or_default();
    for line in views::timeline::lines(fresh, found.run.accepted_at, ctx.style) {
        output::data(&line);
    }
    found.journal.len()
}
