//! `semel subscription retry`.

use semel_model::{EffectId, Label};

use crate::answer::{Answer, Problem};
use crate::commands::Repeat;
use crate::context::Context;
use crate::remote;

/// Retry a delivery that failed, as if it were new. The receiver gets the same id and the
/// same bytes.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The subscription.
    name: Label,
    /// The event's id, as `semel subscription show` lists it.
    event: EffectId,
    #[command(flatten)]
    repeat: Repeat,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let (name, event) = (&arguments.name, arguments.event);
    let client = remote::client(ctx)?;
    let retried = client
        .retry_delivery(name, event, arguments.repeat.given())
        .await?;
    let text = format!("{event} is due again");
    Ok(Answer::done(&retried.body, text).next(format!("semel subscription show {name}")))
}
