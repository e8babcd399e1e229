//! `semel reconcile run`.

use std::time::Duration;

use jiff::Timestamp;
use semel_api::Client;
use semel_api::types::{AskReconcile, PassFilter, ReconcilePassDetail};
use semel_model::{FlowName, Span};

use crate::answer::{Answer, Problem};
use crate::code;
use crate::commands::Repeat;
use crate::context::Context;
use crate::outcome::Outcome;
use crate::remote;
use crate::views::reconcile;

/// How often the pass is asked for.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// The most items to list.
const ITEMS_MAX: u16 = 100;

/// Make a pass now: compare what the source lists with the runs of the flow.
///
/// Safe to repeat: an item has one run, however often it is listed. With --dry-run nothing starts.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  semel reconcile run orders --dry-run        what would start
  semel reconcile run orders --since 7d       look back seven days")]
pub(crate) struct Arguments {
    /// The flow.
    flow: FlowName,
    /// How far back to look; by default as the flow says. At most its `keep`.
    #[arg(long, value_name = "SPAN")]
    since: Option<Span>,
    /// Report what would start, and start nothing.
    #[arg(long)]
    dry_run: bool,
    /// Do not wait for the end of the pass.
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    repeat: Repeat,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let flow = &arguments.flow;
    let ask = AskReconcile {
        since: arguments.since,
        dry_run: arguments.dry_run,
    };
    let client = remote::client(ctx)?;
    let key = arguments.repeat.given();
    let asked = client.ask_reconcile(flow, &ask, key).await?.body;
    let show = format!("semel reconcile show {flow} {}", asked.nominal);
    if arguments.no_wait {
        let text = format!("opened the pass {}", asked.nominal);
        return Ok(Answer::done(&asked, text).next(show));
    }
    let found = wait(&client, flow, asked.nominal).await?;
    let text = reconcile::tell(&found, ctx.style);
    match &found.pass.fault {
        Some(fault) if found.pass.state == "failed" => {
            let message = format!("the pass failed: {fault}");
            Err(Problem::new(
                Outcome::Failed,
                code::RECONCILE_FAILED,
                message,
            ))
        }
        Some(_) | None => Ok(Answer::done(&found, text).next(show)),
    }
}

/// Waits for the end of a pass.
async fn wait(
    client: &Client,
    flow: &FlowName,
    nominal: Timestamp,
) -> Result<ReconcilePassDetail, Problem> {
    let filter = PassFilter {
        limit: Some(ITEMS_MAX),
    };
    loop {
        let found = client.get_pass(flow, nominal, &filter).await?;
        if found.pass.state != "open" {
            return Ok(found);
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}
