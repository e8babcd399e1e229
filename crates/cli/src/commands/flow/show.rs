//! `semel flow show`.

use semel_api::types::FlowDetail;
use semel_flow::CheckContext;
use semel_model::FlowName;

use crate::answer::{Answer, Problem};
use crate::connections;
use crate::context::Context;
use crate::inventory;
use crate::remote;
use crate::style::{Style, Tone, cell, render, toned_cell};
use crate::text::{ago, printable, shortened};
use crate::views::pause;

/// How many characters of a digest people need to tell releases apart.
const DIGEST_CHARS: usize = 13;

/// Show a flow, its releases, and the effects of its live release.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The flow.
    flow: FlowName,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let client = remote::client(ctx)?;
    let found = client.get_flow(&arguments.flow).await?;
    let known = connections::of_server(&client).await;
    let text = tell(&found, &known.facts, ctx.style);
    let mut answer = Answer::done(&found, text);
    answer.notes.extend(known.note);
    answer
        .notes
        .extend(found.flow.paused.as_ref().map(pause::tell));
    Ok(answer.next(format!("semel run list --flow {}", arguments.flow)))
}

fn tell(found: &FlowDetail, facts: &CheckContext, style: Style) -> String {
    let mut table = style.table(&["RELEASE", "PUBLISHED", "DIGEST", "", "REHEARSAL"]);
    for release in &found.releases {
        let (tone, live) = if found.flow.live == Some(release.number) {
            (Tone::Good, "live")
        } else {
            (Tone::Plain, "")
        };
        table.add_row([
            cell(format!("r{}", release.number)),
            cell(ago(release.published_at)),
            cell(shortened(&release.digest, DIGEST_CHARS)),
            toned_cell(tone, live),
            cell(release.proof.as_deref().unwrap_or("-")),
        ]);
    }
    let name = style.bold(&printable(&found.flow.name));
    let mut text = format!("{name}\n\n{}", render(&table));
    if let Some(effects) = live_effects(found, facts, style) {
        text.push_str(&format!("\n\n{effects}"));
    }
    text
}

/// What the live release does to the world.
fn live_effects(found: &FlowDetail, facts: &CheckContext, style: Style) -> Option<String> {
    let live = found
        .releases
        .iter()
        .find(|release| Some(release.number) == found.flow.live)?;
    let examined = semel_flow::examine(&found.flow.name, &live.source, facts);
    let told = inventory::tell(&examined.inventory, style);
    (!told.is_empty()).then_some(told)
}
