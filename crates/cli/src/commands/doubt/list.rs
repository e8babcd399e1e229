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
    /// Only those that were put off until later.
    #[arg(long)]
    snoozed: bool,
    #[command(flatten)]
    page: PageArguments,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let filter = DoubtFilter {
        limit: arguments.page.limit,
        cursor: arguments.page.cursor.clone(),
        snoozed: Some(arguments.snoozed),
    };
    let client = remote::client(ctx)?;
    let page = client.list_doubts_by(&filter).await?;
    let put_off = match arguments.snoozed || page.next.is_some() {
        true => false,
        false => {
            let one = DoubtFilter {
                limit: Some(1),
                cursor: None,
                snoozed: Some(true),
            };
            !client.list_doubts_by(&one).await?.items.is_empty()
        }
    };
    let tell = |answer: Answer| match put_off {
        true => answer
            .note("some doubts are put off until later")
            .next("semel doubt list --snoozed".to_owned()),
        false => answer,
    };
    if page.items.is_empty() {
        let nothing = match arguments.snoozed || put_off {
            true => "no such effect is in doubt",
            false => "no effect is in doubt",
        };
        return Ok(tell(Answer::done(&page, "").note(nothing)));
    }
    let (oldest, attempt) = (page.items[0].id, page.items[0].attempt);
    let answer = Answer::done(&page, views::effect::doubts(&page.items, ctx.style));
    let answer = tell(more(answer, page.next.as_deref()));
    Ok(answer
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
