//! `semel alert list`.

use semel_api::types::{AlertGroup, Alerts};

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::style::{cell, render};
use crate::text::ago;

/// Show where alerts go, what happened, the latest messages, and what waits for the next one.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

pub(crate) async fn run(ctx: &Context, Arguments {}: &Arguments) -> Result<Answer, Problem> {
    let alerts = remote::client(ctx)?.list_alerts().await?;
    let header = [
        "KIND",
        "FLOW",
        "STEP",
        "CONNECTION",
        "TOTAL",
        "WAITING",
        "LAST",
        "MESSAGE",
    ];
    let mut table = ctx.style.table(&header);
    for group in &alerts.groups {
        table.add_row([
            cell(group.kind.as_str()),
            cell(&group.flow),
            cell(&group.step),
            cell(&group.connection),
            cell(group.total.to_string()),
            cell(group.waiting.to_string()),
            cell(ago(group.last_at)),
            cell(message(group)),
        ]);
    }
    Ok(Answer::done(&alerts, render(&table)).note(place(&alerts)))
}

/// Where alerts go, in a sentence.
fn place(alerts: &Alerts) -> String {
    let Some(setting) = &alerts.setting else {
        return "alerts are not set; `semel alert set CONNECTION` sets where they go".to_owned();
    };
    match &setting.connection {
        None => "alerts are only printed to the server's log".to_owned(),
        Some(name) if !setting.connection_exists => {
            format!("alerts go to {name}, which does not exist")
        }
        Some(name) if setting.to.is_empty() => format!("alerts go to {name}"),
        Some(name) => format!("alerts go to {name}: {}", setting.to.join(", ")),
    }
}

/// The latest message of a group, in a few words.
fn message(group: &AlertGroup) -> String {
    let Some(message) = &group.message else {
        return match group.due_at {
            Some(at) => format!("leaves {}", ago(at)),
            None => String::new(),
        };
    };
    let at = ago(message.settled_at.unwrap_or(message.intended_at));
    match &message.note {
        Some(note) => format!("{} {at}: {note}", message.state),
        None => format!("{} {at}", message.state),
    }
}
