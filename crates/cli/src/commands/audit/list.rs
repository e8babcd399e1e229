//! `semel audit list`.

use jiff::Timestamp;
use semel_api::types::AuditFilter;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::style::{cell, render};
use crate::text::{printable, read_time};

/// List what operators did, latest first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  semel audit list --actor token:ci --action flow.promote")]
pub(crate) struct Arguments {
    /// Only of this actor, e.g. token:ci.
    #[arg(long)]
    actor: Option<String>,
    /// Only this action, e.g. flow.promote.
    #[arg(long)]
    action: Option<String>,
    /// Only what was done to this, e.g. an effect or a flow.
    #[arg(long)]
    subject: Option<String>,
    /// Only those of this time or later, e.g. 2026-11-01T00:00:00Z, 2026-11-17 or 24h ago: 24h.
    #[arg(long, value_name = "TIME", value_parser = read_time)]
    since: Option<Timestamp>,
    /// Only those before this time.
    #[arg(long, value_name = "TIME", value_parser = read_time)]
    until: Option<Timestamp>,
    /// The most to list.
    #[arg(long)]
    limit: Option<u16>,
    /// Where the page before ended.
    #[arg(long)]
    cursor: Option<String>,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let filter = AuditFilter {
        actor: arguments.actor.clone(),
        action: arguments.action.clone(),
        subject: arguments.subject.clone(),
        since: arguments.since,
        until: arguments.until,
        limit: arguments.limit,
        cursor: arguments.cursor.clone(),
    };
    let page = remote::client(ctx)?.list_audit(&filter).await?;
    let mut table = ctx
        .style
        .table(&["AT", "ACTOR", "ACTION", "SUBJECT", "REASON"]);
    for act in &page.items {
        table.add_row([
            cell(act.at.to_string()),
            cell(printable(&act.actor)),
            cell(printable(&act.action)),
            cell(printable(&act.subject)),
            cell(printable(act.reason.as_deref().unwrap_or_default())),
        ]);
    }
    let answer = Answer::done(&page, render(&table));
    Ok(match &page.next {
        Some(cursor) => answer.next(format!("semel audit list --cursor {cursor}")),
        None => answer,
    })
}
