//! `semel flow publish`: the draft becomes the next release.

use semel_model::FlowName;

use crate::answer::{Answer, Problem};
use crate::commands::Repeat;
use crate::context::Context;
use crate::remote;

/// Freeze a flow's draft as its next release.
///
/// Safe to repeat: a draft that was published before keeps its number.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  semel flow publish greet")]
pub(crate) struct Arguments {
    /// The flow.
    flow: FlowName,
    #[command(flatten)]
    repeat: Repeat,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let client = remote::client(ctx)?;
    let flow = &arguments.flow;
    // The same words mean another release once another draft was pushed.
    let draft = client.get_flow(flow).await?.draft.unwrap_or_default();
    let key = arguments
        .repeat
        .key_or(&["flow publish", flow.as_str(), &draft]);
    let published = client.publish_flow(flow, &key).await?.body;
    let number = published.release;
    let text = if published.first {
        format!("{flow} r{number} is published")
    } else {
        format!("{flow} r{number} was published before, with the same meaning")
    };
    Ok(Answer::done(&published, text).next(format!("semel flow promote {flow} r{number}")))
}
