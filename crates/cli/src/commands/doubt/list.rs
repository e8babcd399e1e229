//! `semel doubt list`.

use semel_api::types::{DoubtFilter, Effect, OnceEffect, OnceFilter, Page};
use serde::Serialize;

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

/// Effects in doubt, and names in doubt at which no run stands.
#[derive(Serialize)]
struct Doubts<'a> {
    #[serde(flatten)]
    page: &'a Page<Effect>,
    #[serde(skip_serializing_if = "<[OnceEffect]>::is_empty")]
    keys: &'a [OnceEffect],
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
    // They stand on the first page, and cannot be put off.
    let keys = match arguments.snoozed || arguments.page.cursor.is_some() {
        true => Vec::new(),
        false => {
            let doubts = OnceFilter {
                doubts: Some(true),
                ..OnceFilter::default()
            };
            client.list_once(&doubts).await?.items
        }
    };
    let tell = |answer: Answer| match put_off {
        true => answer
            .note("some doubts are put off until later")
            .next("semel doubt list --snoozed".to_owned()),
        false => answer,
    };
    let (page, keys) = (&page, keys.as_slice());
    let doubts = Doubts { page, keys };
    if let (true, Some(oldest)) = (page.items.is_empty(), keys.first()) {
        let answer = Answer::done(&doubts, views::once::table(keys, ctx.style));
        return Ok(tell(about_key(answer, oldest)));
    }
    if page.items.is_empty() {
        let nothing = match arguments.snoozed || put_off {
            true => "no such effect is in doubt",
            false => "no effect is in doubt",
        };
        return Ok(tell(Answer::done(&doubts, "").note(nothing)));
    }
    let (oldest, attempt) = (page.items[0].id, page.items[0].attempt);
    let mut text = views::effect::doubts(&page.items, ctx.style);
    if !keys.is_empty() {
        text.push_str("\n\n");
        text.push_str(&views::once::table(keys, ctx.style));
    }
    let answer = tell(more(Answer::done(&doubts, text), page.next.as_deref()));
    let answer = match keys.first() {
        Some(key) => about_key(answer, key),
        None => answer,
    };
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

/// How a key is settled at which no run stands.
fn about_key(answer: Answer, key: &OnceEffect) -> Answer {
    answer
        .note("keys are in doubt at which no run stands: whoever asks for them waits")
        .next(format!("semel once show {}", key.effect_key))
}
