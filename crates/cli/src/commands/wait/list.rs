//! `semel wait list`.

use semel_api::types::WaitFilter;
use semel_model::RunId;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::paging::{PageArguments, more};
use crate::remote;
use crate::views;

/// List open waits, newest first.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only those of this run.
    #[arg(long)]
    run: Option<RunId>,
    /// Include ended ones.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    page: PageArguments,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let client = remote::client(ctx)?;
    let filter = WaitFilter {
        run: arguments.run,
        all: arguments.all,
        limit: arguments.page.limit,
        cursor: arguments.page.cursor.clone(),
    };
    let page = client.list_waits_by(&filter).await?;
    let answer = Answer::done(&page, views::effect::waits(&page.items, ctx.style));
    let answer = more(answer, page.next.as_deref());
    let open = page.items.iter().find(|wait| wait.state == "open");
    Ok(match open {
        Some(wait) => answer.next(format!("semel wait complete {}", wait.id)),
        None if page.next.is_some() => answer,
        None => answer.note("no wait is open"),
    })
}
