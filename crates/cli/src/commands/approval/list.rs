//! `semel approval list`.

use semel_api::types::ApprovalFilter;
use semel_model::RunId;
use semel_model::approval::ApprovalState;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::paging::{PageArguments, more};
use crate::remote;
use crate::views;

/// List open approvals, newest first.
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
    let filter = ApprovalFilter {
        run: arguments.run,
        all: arguments.all,
        limit: arguments.page.limit,
        cursor: arguments.page.cursor.clone(),
    };
    let page = client.list_approvals_by(&filter).await?;
    let answer = Answer::done(&page, views::approval::table(&page.items, ctx.style));
    let answer = more(answer, page.next.as_deref());
    let open = page
        .items
        .iter()
        .find(|one| one.state == ApprovalState::Open);
    Ok(match open {
        Some(one) => answer.next(format!("semel approval show {}", one.approval)),
        None => answer.note("no approval is open"),
    })
}
