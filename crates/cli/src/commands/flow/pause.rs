//! `semel flow pause`.

use semel_api::types::AskPause;
use semel_model::FlowName;

use crate::answer::{Answer, Problem};
use crate::commands::Repeat;
use crate::context::Context;
use crate::remote;

/// Pause a flow: deliveries are accepted, but its runs begin no step until it is resumed.
///
/// When the command returns, no server begins another attempt for the flow. What was sent before is
/// left to finish, and its outcome is recorded. Timers and `within` stand still. Safe to repeat.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The flow.
    flow: FlowName,
    /// The reason, for the audit log and everyone who wonders why nothing moves.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    repeat: Repeat,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let flow = &arguments.flow;
    let ask = AskPause {
        reason: arguments.reason.clone(),
    };
    let client = remote::client(ctx)?;
    let key = arguments.repeat.given();
    let paused = client.pause_flow(flow, &ask, key).await?.body;
    let text = match paused.changed {
        true => format!("{flow} is paused"),
        false => format!("{flow} was paused already"),
    };
    Ok(Answer::done(&paused, text).next(format!("semel flow resume {flow}")))
}
