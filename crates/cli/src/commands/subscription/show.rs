//! `semel subscription show`.

use semel_api::types::{DeliveryFilter, DeliveryState};
use semel_model::Label;
use serde_json::json;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::text::{ago, printable};
use crate::views;

/// Show a subscription with its latest deliveries.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The subscription.
    name: Label,
    /// Only deliveries that failed.
    #[arg(long)]
    failed: bool,
    /// The most deliveries to list.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
    limit: u16,
    /// The cursor of the previous page.
    #[arg(long)]
    cursor: Option<String>,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let name = &arguments.name;
    let client = remote::client(ctx)?;
    let found = client.get_subscription(name).await?;
    let filter = DeliveryFilter {
        state: arguments.failed.then_some(DeliveryState::Failed),
        limit: Some(arguments.limit),
        cursor: arguments.cursor.clone(),
    };
    let page = client.list_deliveries(name, &filter).await?;
    let title = ctx.style.bold(name.as_str());
    let text = format!(
        "{title} receives {} over {} ({} due, since {})\n\n{}",
        printable(&found.event),
        printable(&found.connection),
        found.due,
        ago(found.created_at),
        views::delivery::table(&page.items, ctx.style)
    );
    let whole = json!({ "subscription": found, "deliveries": page });
    let mut answer = Answer::done(&whole, text);
    if page.items.is_empty() {
        answer = answer.note("no recent deliveries");
    }
    let failed = page
        .items
        .iter()
        .find(|one| one.state == DeliveryState::Failed);
    if let Some(one) = failed {
        answer = answer.next(format!("semel subscription retry {name} {}", one.id));
    }
    Ok(match &page.next {
        Some(cursor) => answer.note(format!("there are more: --cursor {cursor}")),
        None => answer,
    })
}
