//! `semel duplicate list`.

use semel_model::RunId;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::views;

/// List duplicates that were stopped, and deliveries that came too late, latest first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  semel duplicate list --key order-42")]
pub(crate) struct Arguments {
    /// Only duplicates of this run.
    #[arg(long, conflicts_with = "key")]
    run: Option<RunId>,
    /// Only those of this key.
    #[arg(long)]
    key: Option<String>,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let client = remote::client(ctx)?;
    let page = match &arguments.key {
        Some(key) => client.list_duplicates_of_key(key).await?,
        None => client.list_duplicates(arguments.run).await?,
    };
    let answer = Answer::done(&page, views::effect::duplicates(&page.items, ctx.style));
    Ok(match page.items.first() {
        Some(latest) => answer.next(format!("semel duplicate show {}", latest.run)),
        None => answer.note("no duplicate was stopped"),
    })
}
