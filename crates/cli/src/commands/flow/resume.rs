//! `semel flow resume`.

use semel_api::types::AskResume;
use semel_model::FlowName;

use crate::answer::{Answer, Problem};
use crate::commands::Repeat;
use crate::context::Context;
use crate::remote;

/// Resume a flow that is paused: its runs continue, and their deadlines are later by the time of the pause.
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
    let ask = AskResume {
        reason: arguments.reason.clone(),
        per_second: None,
    };
    let client = remote::client(ctx)?;
    let key = arguments.repeat.given();
    let resumed = client.resume_flow(flow, &ask, key).await?.body;
    let text = match resumed.changed {
        true => format!("{flow} is resumed"),
        false => format!("{flow} was not paused"),
    };
    Ok(Answer::done(&resumed, text).next(format!("semel run list --flow {flow}")))
}
