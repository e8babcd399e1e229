//! `semel key drop`: frees a key, so that the next delivery starts a new run.

use semel_api::types::DropKey;
use semel_model::FlowName;

use crate::answer::{Answer, Problem};
use crate::commands::Repeat;
use crate::context::Context;
use crate::remote;
use crate::text::printable;

/// Free a key, so that the next delivery of it starts a new run.
///
/// Only the key of a run that has ended can be freed. The new run reuses what earlier runs of the
/// key did and performs the rest, unless the key is to be a new intent.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  semel key drop greet order-42 --reason 'test order'")]
pub(crate) struct Arguments {
    /// The flow.
    flow: FlowName,
    /// The key.
    #[arg(value_name = "KEY")]
    name: String,
    /// The reason, for the audit log.
    #[arg(long)]
    reason: String,
    /// Make the key a new intent: everything that its runs did may be done again, under new keys.
    #[arg(long)]
    new_intent: bool,
    /// The key that makes it safe to repeat this; derived from the command by default.
    #[command(flatten)]
    repeat: Repeat,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let client = remote::client(ctx)?;
    let (flow, name) = (&arguments.flow, &arguments.name);
    // The same key may be held again later, by another run: freeing it then is another command.
    let held = client.get_key(flow, name).await?.run.to_string();
    let reason = arguments.reason.clone();
    let new_intent = arguments.new_intent;
    let verb = match new_intent {
        true => "key drop --new-intent",
        false => "key drop",
    };
    let key = arguments
        .repeat
        .key_or(&[verb, flow.as_str(), name, &held, &reason]);
    let dropped = client
        .drop_key(flow, name, &DropKey { reason, new_intent }, &key)
        .await?
        .body;
    let text = format!(
        "{} is free; {} stays recorded, and its next run {}",
        printable(name),
        dropped.run,
        match new_intent {
            true => "performs everything again, under new keys",
            false => "reuses what was done",
        }
    );
    Ok(Answer::done(&dropped, text).next(format!("semel run show {}", dropped.run)))
}
