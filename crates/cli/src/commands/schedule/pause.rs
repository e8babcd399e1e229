//! `semel schedule pause`.

use semel_api::types::PauseSchedule;
use semel_model::FlowName;

use crate::answer::{Answer, Problem};
use crate::commands::Repeat;
use crate::context::Context;
use crate::remote;

/// Pause a schedule: its instants start nothing until it is resumed, and are recorded as skipped.
///
/// Safe to repeat. Active runs continue, and the flow's other triggers still start runs.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The flow.
    flow: FlowName,
    /// The reason, for the audit log.
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    repeat: Repeat,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let flow = &arguments.flow;
    let ask = PauseSchedule {
        reason: arguments.reason.clone(),
    };
    let client = remote::client(ctx)?;
    let key = arguments.repeat.given();
    let paused = client.pause_schedule(flow, &ask, key).await?.body;
    let text = match paused.changed {
        true => format!("the schedule of {flow} is paused"),
        false => format!("the schedule of {flow} was paused already"),
    };
    Ok(Answer::done(&paused, text).next(format!("semel schedule resume {flow}")))
}
