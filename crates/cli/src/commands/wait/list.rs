//! `semel wait list`.

use semel_model::RunId;

use crate::answer::{Answer, Problem};
use crate::context::Context;
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
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let client = remote::client(ctx)?;
    let page = if arguments.all {
        client.list_all_waits(arguments.run).await?
    } else {
        client.list_waits(arguments.run).await?
    };
    let answer = Answer::done(&page, views::effect::waits(&page.items, ctx.style));
    let open = page.items.iter().find(|wait| wait.state == "open");
    Ok(match open {
        Some(wait) => answer.next(format!("semel wait complete {}", wait.id)),
        None => answer.note("no wait is open"),
    })
}
