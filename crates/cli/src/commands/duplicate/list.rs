//! `semel duplicate list`.

use semel_api::types::{Duplicate, DuplicateFilter, Page};
use semel_model::{FlowName, RunId};

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::paging::{PageArguments, more};
use crate::remote;
use crate::views;

/// List duplicates that were stopped, and deliveries that came too late, latest minute first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  semel duplicate list --key order-42
  semel duplicate list --held")]
pub(crate) struct Arguments {
    /// Only duplicates of this run.
    #[arg(long, conflicts_with_all = ["key", "held"])]
    run: Option<RunId>,
    /// Only those of this key.
    #[arg(long, conflicts_with = "held")]
    key: Option<String>,
    /// Only deliveries that are held until an operator decides.
    #[arg(long)]
    held: bool,
    /// Only what is held of this flow.
    #[arg(long, requires = "held")]
    flow: Option<FlowName>,
    #[command(flatten)]
    page: PageArguments,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let filter = DuplicateFilter {
        run: arguments.run,
        key: arguments.key.clone(),
        held: arguments.held,
        flow: arguments.flow.clone(),
        without_payloads: false,
        limit: arguments.page.limit,
        cursor: arguments.page.cursor.clone(),
    };
    let page = remote::client(ctx)?.list_duplicates_by(&filter).await?;
    if arguments.held {
        return list_held(ctx, &page);
    }
    let answer = Answer::done(&page, views::duplicate::table(&page.items, ctx.style));
    let answer = more(answer, page.next.as_deref());
    Ok(match page.items.first() {
        Some(latest) => answer.next(format!("semel duplicate show {}", latest.run)),
        None => answer.note("no duplicate was stopped"),
    })
}

fn list_held(ctx: &Context, page: &Page<Duplicate>) -> Result<Answer, Problem> {
    let answer = Answer::done(page, views::duplicate::held(&page.items, ctx.style));
    let answer = more(answer, page.next.as_deref());
    let latest = page.items.first();
    let Some((latest, id)) = latest.and_then(|latest| Some((latest, latest.duplicate?))) else {
        return Ok(answer.note("no delivery is held"));
    };
    Ok(answer
        .decision(
            "to start a run of its own",
            format!("semel duplicate accept {id} --as-new-key KEY --reason '…'"),
        )
        .decision(
            "to answer it with the existing run",
            format!("semel duplicate accept {id} --as-repeat --reason '…'"),
        )
        .decision(
            "to dismiss it",
            format!("semel duplicate dismiss {id} --reason '…'"),
        )
        .next(format!("semel duplicate show {}", latest.run)))
}
