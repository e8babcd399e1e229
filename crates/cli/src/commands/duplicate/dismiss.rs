//! `semel duplicate dismiss`: nothing comes of a held delivery.

use semel_api::types::HeldReason;
use semel_model::DuplicateId;

use crate::answer::{Answer, Problem};
use crate::commands::Repeat;
use crate::context::Context;
use crate::remote;

/// Dismiss a held delivery: it starts nothing, and is off the list of what is held.
///
/// Its record stays. If its sender sends it again, it is counted and starts nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  semel duplicate dismiss dup_0123… --reason 'a replay'")]
pub(crate) struct Arguments {
    /// The held delivery, as `semel duplicate list --held` prints it.
    duplicate: DuplicateId,
    /// The reason, for the audit log.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    repeat: Repeat,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let (id, reason) = (arguments.duplicate, arguments.reason.clone());
    let words = ["duplicate dismiss", &id.to_string(), &reason];
    let key = arguments.repeat.key_or(&words);
    let dismiss = HeldReason { reason };
    let client = remote::client(ctx)?;
    let decided = client.dismiss_held(id, &dismiss, &key).await?.body;
    let text = format!("{id} is dismissed; its record stays");
    Ok(Answer::done(&decided, text).next("semel duplicate list --held"))
}
