//! `semel alert unset`.

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;

/// End the alerts of the namespace, and drop what waits for a message.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

pub(crate) async fn run(ctx: &Context, Arguments {}: &Arguments) -> Result<Answer, Problem> {
    let done = remote::client(ctx)?.unset_alerts(None).await?.body;
    let text = "alerts are not sent any more";
    Ok(Answer::done(done, text).next("semel alert list"))
}
