//! `semel connection pause`.

use semel_api::types::AskPause;
use semel_model::Label;

use crate::answer::{Answer, Problem};
use crate::commands::Repeat;
use crate::context::Context;
use crate::remote;

/// Pause a connection: no effect over it begins until it is resumed, and none is lost.
///
/// When the command returns, no server begins another attempt over the connection. What was sent before
/// is left to finish; reads and probes still go out. Safe to repeat.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The connection.
    name: Label,
    /// The reason, for the audit log and everyone who wonders why nothing moves.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    repeat: Repeat,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let name = &arguments.name;
    let ask = AskPause {
        reason: arguments.reason.clone(),
    };
    let client = remote::client(ctx)?;
    let key = arguments.repeat.given();
    let paused = client.pause_connection(name, &ask, key).await?.body;
    let text = match paused.changed {
        true => format!("{name} is paused"),
        false => format!("{name} was paused already"),
    };
    Ok(Answer::done(&paused, text).next(format!("semel connection resume {name} --rate 10/s")))
}
