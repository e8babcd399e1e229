//! `semel schedule resume`.

use semel_api::types::PauseSchedule;
use semel_model::FlowName;

use crate::answer::{Answer, Problem};
use crate::commands::Repeat;
use crate::context::Context;
use crate::remote;

/// Resume a paused schedule. The instants that passed meanwhile stay skipped.
///
/// Safe to repeat.
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
    let resumed = client.resume_schedule(flow, &ask, key).await?.body;
    let text = match resumed.changed {
        true => format!("the schedule of {flow} is resumed"),
        false => format!("the schedule of {flow} was not paused"),
    };
    Ok(Answer::done(&resumed, text).next(format!("semel schedule next {flow}")))
}
