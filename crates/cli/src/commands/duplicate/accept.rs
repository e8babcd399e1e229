//! `semel duplicate accept`: lets a held delivery in.

use semel_api::types::{AcceptAsNew, HeldReason};
use semel_model::DuplicateId;

use crate::answer::{Answer, Problem};
use crate::commands::Repeat;
use crate::context::Context;
use crate::remote;
use crate::text::printable;

/// Let a held delivery in: as a run of its own, or as a repeat of the run that its key has.
///
/// As a new key it needs the right `override`: a replayed delivery would otherwise do again what the
/// first one did. As a repeat nothing starts, and the trigger's `on_repeat` applies.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  semel duplicate accept dup_0123… --as-new-key order-42-b --reason 'a second order, same body'
  semel duplicate accept dup_0123… --as-repeat --reason 'only the note differs'")]
#[command(group = clap::ArgGroup::new("as").required(true))]
pub(crate) struct Arguments {
    /// The held delivery, as `semel duplicate list --held` prints it.
    duplicate: DuplicateId,
    /// Start a run of its own under this key, which must have none.
    #[arg(long, group = "as", value_name = "KEY")]
    as_new_key: Option<String>,
    /// Answer it with the run that its key has.
    #[arg(long, group = "as")]
    as_repeat: bool,
    /// The reason, for the audit log.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    repeat: Repeat,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let client = remote::client(ctx)?;
    let (id, reason) = (arguments.duplicate, arguments.reason.clone());
    let repeat = &arguments.repeat;
    let decided = match &arguments.as_new_key {
        Some(name) => {
            let words = ["duplicate accept", &id.to_string(), name, &reason];
            let key = repeat.key_or(&words);
            let accept = AcceptAsNew {
                key: name.clone(),
                reason,
            };
            client.accept_as_new(id, &accept, &key).await?.body
        }
        None => {
            let words = ["duplicate accept --as-repeat", &id.to_string(), &reason];
            let key = repeat.key_or(&words);
            let accept = HeldReason { reason };
            client.accept_as_repeat(id, &accept, &key).await?.body
        }
    };
    let run = decided.run.map_or_else(String::new, |run| run.to_string());
    let text = match &arguments.as_new_key {
        Some(name) => format!("{id} has a run of its own under {}: {run}", printable(name)),
        None => format!("{id} is a repeat of {run}"),
    };
    Ok(Answer::done(&decided, text).next(format!("semel run watch {run}")))
}
