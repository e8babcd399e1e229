//! `semel wait complete`: completes a wait in place of its callback.

use semel_api::types::CompleteWait;
use semel_model::WaitId;

use crate::answer::{Answer, Problem};
use crate::commands::{Repeat, read_json};
use crate::context::Context;
use crate::remote;

/// Complete a wait in place of its callback.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  semel wait complete wait_0123… --payload '{\"approved\":true}'"
)]
pub(crate) struct Arguments {
    /// The wait.
    wait: WaitId,
    /// The wait's result in the flow: JSON, @FILE, or - for stdin.
    #[arg(long, value_name = "JSON", default_value = "null")]
    payload: String,
    #[command(flatten)]
    repeat: Repeat,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let wait = arguments.wait;
    let payload = read_json(&arguments.payload)?;
    let words = ["wait complete", &wait.to_string(), &payload.to_string()];
    let key = arguments.repeat.key_or(&words);
    let called = remote::client(ctx)?
        .complete_wait(wait, &CompleteWait { payload }, &key)
        .await?
        .body;
    let text = format!("{wait} is completed; {} continues", called.run);
    Ok(Answer::done(&called, text).next(format!("semel run watch {}", called.run)))
}
