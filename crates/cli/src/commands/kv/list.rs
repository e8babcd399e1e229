//! `semel kv list`.

use semel_api::types::EntryFilter;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::text::operand;
use crate::views;

/// List entries by name, without their values.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  semel kv list --prefix seen/")]
pub(crate) struct Arguments {
    /// Only those whose name begins so.
    #[arg(long)]
    prefix: Option<String>,
    /// The cursor of the previous page.
    #[arg(long)]
    cursor: Option<String>,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let filter = EntryFilter {
        prefix: arguments.prefix.clone(),
        cursor: arguments.cursor.clone(),
    };
    let page = remote::client(ctx)?.list_entries(&filter).await?;
    let answer = Answer::done(&page, views::entry::table(&page.items, ctx.style));
    let answer = match page.items.first() {
        Some(first) => answer.next(format!("semel kv get {}", operand(&first.entry))),
        None if page.next.is_some() => answer.note("none of the entries looked at matches"),
        None => answer.note("no entry matches"),
    };
    Ok(match &page.next {
        Some(cursor) => answer.note(format!("there are more: --cursor {cursor}")),
        None => answer,
    })
}
