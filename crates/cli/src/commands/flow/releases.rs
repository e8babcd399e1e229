//! `semel flow releases`.

use semel_api::types::ReleaseFilter;
use semel_model::FlowName;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::paging::{PageArguments, more};
use crate::remote;
use crate::style::{cell, render};
use crate::text::ago;

/// List the releases of a flow, newest first.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The flow.
    flow: FlowName,
    #[command(flatten)]
    page: PageArguments,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let filter = ReleaseFilter {
        limit: arguments.page.limit,
        cursor: arguments.page.cursor.clone(),
    };
    let client = remote::client(ctx)?;
    let page = client.list_releases(&arguments.flow, &filter).await?;
    let header = ["RELEASE", "PUBLISHED", "REHEARSAL", "DIGEST"];
    let mut table = ctx.style.table(&header);
    for release in &page.items {
        table.add_row([
            cell(format!("r{}", release.number)),
            cell(ago(release.published_at)),
            cell(release.proof.as_deref().unwrap_or("-")),
            cell(&release.digest),
        ]);
    }
    let answer = Answer::done(&page, render(&table));
    Ok(more(answer, page.next.as_deref()))
}
