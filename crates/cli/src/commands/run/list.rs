//! `semel run list`.

use jiff::Timestamp;
use semel_api::types::{RunFilter, RunStatus};
use semel_model::{FlowName, RunId};

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::text::read_time;
use crate::views;

/// List runs, newest first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  semel run list --flow greet --limit 5
  semel run list --state failed
  semel run list --needs-review
  semel run list --flow orders --release r4 --error http-status --since 2026-11-17T00:00:00Z
  semel run list --key order-42")]
pub(crate) struct Arguments {
    /// Only those of this flow.
    #[arg(long)]
    flow: Option<FlowName>,
    /// Only those in this state: active, in_doubt, succeeded, failed, …
    #[arg(long)]
    state: Option<RunStatus>,
    /// Only those that used up their retries and need an operator.
    #[arg(long, conflicts_with_all = ["state", "in_doubt"])]
    needs_review: bool,
    /// Only those with an effect whose outcome is unknown.
    #[arg(long, conflicts_with = "state")]
    in_doubt: bool,
    /// Only those of this key.
    #[arg(long)]
    key: Option<String>,
    /// Only those on this release, a number such as r4, with --flow.
    #[arg(long, value_name = "RELEASE", requires = "flow", value_parser = release_number)]
    release: Option<i32>,
    /// Only those accepted at this time or later, e.g. 2026-11-17T00:00:00Z, 2026-11-17 or 24h ago: 24h.
    #[arg(long, value_name = "TIME", value_parser = read_time)]
    since: Option<Timestamp>,
    /// Only those accepted before this time.
    #[arg(long, value_name = "TIME", value_parser = read_time)]
    until: Option<Timestamp>,
    /// Only those that failed with this error code.
    #[arg(long, value_name = "CODE")]
    error: Option<String>,
    /// Only the items and branches of this run.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["key", "external_id"])]
    parent: Option<RunId>,
    /// Only those with an effect that the destination knows by this identifier.
    #[arg(long, value_name = "ID", conflicts_with = "key")]
    external_id: Option<String>,
    /// The most runs to list.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
    limit: u16,
    /// The cursor of the previous page.
    #[arg(long)]
    cursor: Option<String>,
}

/// Reads a release's number, such as r4.
fn release_number(text: &str) -> Result<i32, String> {
    let number = text.strip_prefix('r').unwrap_or(text).parse();
    let number = number.ok().filter(|number| *number > 0);
    number.ok_or_else(|| "expected a release's number such as r4".to_owned())
}

impl Arguments {
    fn status(&self) -> Option<RunStatus> {
        match (self.needs_review, self.in_doubt) {
            (true, _) => Some(RunStatus::NeedsReview),
            (false, true) => Some(RunStatus::InDoubt),
            (false, false) => self.state,
        }
    }
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let filter = RunFilter {
        ids: None,
        flow: arguments.flow.clone(),
        state: arguments.status(),
        key: arguments.key.clone(),
        release: arguments.release,
        since: arguments.since,
        until: arguments.until,
        error: arguments.error.clone(),
        parent: arguments.parent,
        external_id: arguments.external_id.clone(),
        limit: Some(arguments.limit),
        cursor: arguments.cursor.clone(),
    };
    let page = remote::client(ctx)?.list_runs(&filter).await?;
    let answer = Answer::done(&page, views::run::table(&page.items, ctx.style));
    let answer = match page.items.first() {
        Some(newest) => answer.next(format!("semel run show {}", newest.id)),
        None => answer.note("no run matches"),
    };
    Ok(match &page.next {
        Some(cursor) => answer.note(format!("there are more: --cursor {cursor}")),
        None => answer,
    })
}
