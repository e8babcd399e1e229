//! `semel once list`.

use semel_api::types::OnceFilter;
use semel_model::{Label, NamedEffectState};

use super::stored;
use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::views;

/// List keys of commands and steps that run once, the latest first.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only those of this scope.
    #[arg(long, value_name = "NAME")]
    scope: Option<Label>,
    /// Only in this state: pending, done, failed, `in_doubt` or undoing.
    #[arg(long)]
    state: Option<NamedEffectState>,
    /// The page after the one that named this cursor.
    #[arg(long)]
    cursor: Option<String>,
    /// The most keys of a page.
    #[arg(long)]
    limit: Option<u16>,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let filter = OnceFilter {
        scope: arguments.scope.clone(),
        state: arguments.state,
        doubts: None,
        cursor: arguments.cursor.clone(),
        limit: arguments.limit,
    };
    let page = remote::client(ctx)?.list_once(&filter).await?;
    let answer = Answer::done(&page, views::once::table(&page.items, ctx.style));
    let in_doubt = |state| state == NamedEffectState::InDoubt;
    let first = page.items.iter().find(|effect| in_doubt(effect.state));
    let answer = match first.or(page.items.first()) {
        Some(effect) => answer.next(stored::show_line(effect)),
        None => answer.note("no key matches"),
    };
    Ok(match &page.next {
        Some(cursor) => answer.next(format!("semel once list --cursor {cursor}")),
        None => answer,
    })
}
