//! `semel doubt list`.

use semel_api::types::DoubtFilter;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::paging::{PageArguments, more};
use crate::remote;
use crate::views;

/// List effects in doubt, oldest first.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    page: PageArguments,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let filter = DoubtFilter {
        limit: arguments.page.limit,
        cursor: arguments.page.cursor.clone(),
    };
    let page = remote::client(ctx)?.list_doubts_by(&filter).await?;
    if page.items.is_empty() {
        return Ok(Answer::done(&page, "").note("no effect is in doubt"));
    }
    let (oldest, attempt) = (page.items[0].id, page.items[0].attempt);
    let answer = Answer::done(&page, views::effect::doubts(&page.items, ctx.style));
    Ok(more(answer, page.next.as_deref())
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
        .next(format!("semel effect show {oldest}")))
}
