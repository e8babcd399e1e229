//! `semel refusal list`.

use jiff::Timestamp;
use semel_api::types::RefusedFilter;
use semel_model::FlowName;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::text::read_time;
use crate::views;

/// List deliveries that were refused, latest first, as far as they are recorded.
///
/// Recorded are a key that cannot be computed, a body that cannot be read, is too large or does not fit
/// the flow's schema, a known key with another payload (60 a minute for each flow), and a signature that
/// does not verify (one a minute for each flow).
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  semel refusal list --flow orders --code key-failed --since 2026-11-01T00:00:00Z")]
pub(crate) struct Arguments {
    /// Only those of this flow.
    #[arg(long)]
    flow: Option<FlowName>,
    /// Only those with this error code.
    #[arg(long)]
    code: Option<String>,
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
    let filter = RefusedFilter {
        flow: arguments.flow.as_ref().map(ToString::to_string),
        code: arguments.code.clone(),
        since: arguments.since,
        until: arguments.until,
        limit: arguments.limit,
        cursor: arguments.cursor.clone(),
    };
    let page = remote::client(ctx)?.list_refused(&filter).await?;
    let answer = Answer::done(&page, views::duplicate::refused(&page.items, ctx.style));
    if page.items.is_empty() {
        return Ok(answer.note("no delivery was refused"));
    }
    let answer = answer.next(format!("semel explain {}", page.items[0].code));
    Ok(match &page.next {
        Some(cursor) => answer.next(format!("semel refusal list --cursor {cursor}")),
        None => answer,
    })
}
