//! The doubts of one step: listed with a digest, and settled by it.

use semel_api::types::{GroupedDoubts, SettleGroup, Verdict};

use crate::answer::{Answer, Problem};
use crate::commands::Repeat;
use crate::context::Context;
use crate::remote;
use crate::style::{Style, Tone, cell, render, toned_cell};
use crate::text::shell_word;

pub(super) async fn run(
    ctx: &Context,
    group: SettleGroup,
    repeat: &Repeat,
) -> Result<Answer, Problem> {
    match &group.digest {
        Some(digest) => apply(ctx, &group, digest, repeat).await,
        None => preview(ctx, &group).await,
    }
}

async fn preview(ctx: &Context, group: &SettleGroup) -> Result<Answer, Problem> {
    let found = remote::client(ctx)?.preview_settlement(group).await?;
    let answer = Answer::done(&found, table(&found, ctx.style));
    if found.doubts.is_empty() {
        return Ok(answer.note("no effect of this step is in doubt"));
    }
    let single = found.doubts.iter().filter(|it| it.code.is_some()).count();
    if single > 0 {
        let message =
            format!("nothing can be settled together: {single} need a decision of their own");
        return Ok(answer
            .note(message)
            .next(format!("semel effect show {}", found.doubts[0].effect)));
    }
    let answer = match found.more {
        true => answer.note("there are more: settle these, then repeat the command"),
        false => answer,
    };
    let mut narrow = String::new();
    if let Some(name) = &group.connection {
        narrow.push_str(&format!(" --connection {name}"));
    }
    if let Some(seen) = &group.seen {
        narrow.push_str(&format!(" --seen {}", shell_word(seen)));
    }
    let (flow, step, digest) = (&group.flow, &group.step, &found.digest);
    let verdict = option(group.verdict);
    let command = format!(
        "semel doubt settle --flow {flow} --step {step}{narrow} {verdict} --reason '…' --apply {digest}"
    );
    let about = format!("to settle these {}", found.doubts.len());
    Ok(answer
        .note("nothing is settled yet: check the destination by the effects' keys")
        .decision(&about, command))
}

async fn apply(
    ctx: &Context,
    group: &SettleGroup,
    digest: &str,
    repeat: &Repeat,
) -> Result<Answer, Problem> {
    let asked = serde_json::to_string(group).unwrap_or_default();
    let key = repeat.key_or(&["doubt settle group", digest, &asked]);
    let found = remote::client(ctx)?.settle_group(group, &key).await?.body;
    let (settled, all) = (found.settled, found.doubts.len());
    let text = format!("{}\n\n{settled} of {all} settled", table(&found, ctx.style));
    let answer = Answer::done(&found, text);
    Ok(match settled < all || found.more {
        true => answer.next("semel doubt list"),
        false => answer,
    })
}

const fn option(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Happened => "--happened",
        Verdict::Undo => "--undo",
        Verdict::DidNotHappen => "--did-not-happen",
        Verdict::Fail => "--fail",
    }
}

fn table(found: &GroupedDoubts, style: Style) -> String {
    let mut table = style.table(&["EFFECT", "ATTEMPT", "RUN", "NOTE"]);
    for doubt in &found.doubts {
        let note = match (&doubt.code, &doubt.note) {
            (Some(code), Some(note)) => format!("{code}: {note}"),
            (Some(code), None) => code.clone(),
            (None, _) => "-".to_owned(),
        };
        let tone = match doubt.code {
            Some(_) => Tone::Odd,
            None => Tone::Plain,
        };
        table.add_row([
            cell(doubt.effect.to_string()),
            cell(doubt.attempt.to_string()),
            cell(doubt.run.to_string()),
            toned_cell(tone, note),
        ]);
    }
    render(&table)
}
