//! `semel doubt list`.

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::views;

/// List effects in doubt, oldest first.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

pub(crate) async fn run(ctx: &Context, Arguments {}: &Arguments) -> Result<Answer, Problem> {
    let page = remote::client(ctx)?.list_doubts().await?;
    if page.items.is_empty() {
        return Ok(Answer::done(&page, "").note("no effect is in doubt"));
    }
    let (oldest, attempt) = (page.items[0].id, page.items[0].attempt);
    Ok(
        Answer::done(&page, views::effect::doubts(&page.items, ctx.style))
            .note("check the destination, by the effect's key; then record what you found")
            .decision(
                "if it happened",
                format!("semel doubt settle {oldest} --happened --result '{{…}}' --reason '…'"),
            )
            .decision(
                "if it did not",
                format!(
                    "semel doubt settle {oldest} --did-not-happen --attempt {attempt} --reason '…'"
                ),
            )
            .next(format!("semel effect show {oldest}")),
    )
}
