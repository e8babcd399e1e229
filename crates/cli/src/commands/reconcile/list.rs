//! `semel reconcile list`.

use semel_api::types::PassFilter;
use semel_model::FlowName;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::views::reconcile;

/// List the passes of a flow, the latest first, with what they found.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The flow.
    flow: FlowName,
    /// The most passes to list.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
    limit: u16,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let flow = &arguments.flow;
    let filter = PassFilter {
        limit: Some(arguments.limit),
    };
    let page = remote::client(ctx)?.list_passes(flow, &filter).await?;
    let answer = Answer::done(&page, reconcile::table(&page.items, ctx.style));
    Ok(match page.items.first() {
        Some(first) => answer.next(format!("semel reconcile show {flow} {}", first.nominal)),
        None => answer
            .note("the flow has no passes yet")
            .next(format!("semel reconcile run {flow} --dry-run")),
    })
}
