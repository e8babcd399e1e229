//! `semel key list`.

use semel_api::types::{KeyFilter, KeyInfo};
use semel_model::FlowName;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::style::{Style, cell, render};
use crate::text::{ago, operand, printable};

/// List the keys of a flow that a run answers for, those of the newest runs first.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The flow.
    flow: FlowName,
    /// The most keys of a page.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
    limit: u16,
    /// The cursor of the previous page.
    #[arg(long)]
    cursor: Option<String>,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let filter = KeyFilter {
        limit: Some(arguments.limit),
        cursor: arguments.cursor.clone(),
    };
    let client = remote::client(ctx)?;
    let page = client.list_keys(&arguments.flow, &filter).await?;
    let answer = Answer::done(&page, table(&page.items, ctx.style));
    let answer = match page.items.first() {
        Some(first) => {
            let key = operand(&first.key);
            answer.next(format!("semel key show {} {key}", arguments.flow))
        }
        None => answer.note("no key is held"),
    };
    Ok(match &page.next {
        Some(cursor) => answer.note(format!("there are more: --cursor {cursor}")),
        None => answer,
    })
}

fn table(keys: &[KeyInfo], style: Style) -> String {
    let mut table = style.table(&["KEY", "STATE", "RUN", "KEPT UNTIL"]);
    for found in keys {
        table.add_row([
            cell(printable(&found.key)),
            cell(found.state.map_or("-", |state| state.as_str())),
            cell(found.run.to_string()),
            cell(ago(found.expires_at)),
        ]);
    }
    render(&table)
}
