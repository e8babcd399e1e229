//! `semel alert test`.

use crate::answer::{Answer, Problem};
use crate::code;
use crate::context::Context;
use crate::outcome::Outcome;
use crate::output::Progress;
use crate::remote;

/// Send one message to where alerts go, and say its outcome.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

pub(crate) async fn run(ctx: &Context, Arguments {}: &Arguments) -> Result<Answer, Problem> {
    let client = remote::client(ctx)?;
    let progress = Progress::begin(ctx.reader, "sending …");
    let tested = client.test_alerts(None).await?.body;
    drop(progress);
    let note = tested.note.as_deref().unwrap_or_default();
    Ok(match tested.outcome.as_str() {
        "done" => Answer::done(&tested, "the message was delivered").next("semel alert list"),
        "in_doubt" => {
            let message = format!("whether the message was delivered is unknown: {note}");
            Answer::done(&tested, "")
                .with_fault(Outcome::InDoubt, code::ALERT_UNDELIVERED, &message)
                .next("semel alert list")
        }
        _ => {
            let message = format!("the message was not delivered: {note}");
            Answer::done(&tested, "")
                .with_fault(Outcome::Failed, code::ALERT_UNDELIVERED, &message)
                .next("semel alert list")
        }
    })
}
