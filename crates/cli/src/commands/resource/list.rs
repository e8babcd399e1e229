//! `semel resource list`.

use semel_api::types::ResourceFilter;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::views;

/// List resources, newest first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  semel resource list --limit 5")]
pub(crate) struct Arguments {
    /// The most resources to list.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
    limit: u16,
    /// The cursor of the previous page.
    #[arg(long)]
    cursor: Option<String>,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let filter = ResourceFilter {
        limit: Some(arguments.limit),
        cursor: arguments.cursor.clone(),
    };
    let page = remote::client(ctx)?.list_resources(&filter).await?;
    let answer = Answer::done(&page, views::resource::table(&page.items, ctx.style));
    let answer = match page.items.first() {
        Some(newest) => answer.next(format!("semel resource get {}", newest.resource)),
        None => answer.note("no resources"),
    };
    Ok(match &page.next {
        Some(cursor) => answer.note(format!("there are more: --cursor {cursor}")),
        None => answer,
    })
}
