//! `semel approval list`.

use semel_model::RunId;
use semel_model::approval::ApprovalState;

use crate::answer::{Answer, Problem};
use crate::context::Context;
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
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let client = remote::client(ctx)?;
    let page = match arguments.all {
        true => client.list_all_approvals(arguments.run).await?,
        false => client.list_approvals(arguments.run).await?,
    };
    let answer = Answer::done(&page, views::approval::table(&page.items, ctx.style));
    let open = page
        .items
        .iter()
        .find(|one| one.state == ApprovalState::Open);
    Ok(match open {
        Some(one) => answer.next(format!("semel approval show {}", one.approval)),
        None => answer.note("no approval is open"),
    })
}
