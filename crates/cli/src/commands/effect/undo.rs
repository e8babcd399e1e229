//! `semel effect undo`: takes one done effect back.

use semel_api::types::EffectReason;
use semel_model::EffectId;

use crate::answer::{Answer, Problem};
use crate::commands::Repeat;
use crate::context::Context;
use crate::remote;

/// Undo one done effect of an ended run, by what its step declares under `undo`.
///
/// The run performs that one request, under a key of its own, and then ends as it had ended.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  semel effect undo eff_0123… --reason 'the customer asked for it'")]
pub(crate) struct Arguments {
    /// The effect.
    effect: EffectId,
    /// The reason, for the audit log.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    repeat: Repeat,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let effect = arguments.effect;
    let reason = arguments.reason.clone();
    let client = remote::client(ctx)?;
    // An effect is undone once: after that it is another one, or undone.
    let key = arguments
        .repeat
        .key_or(&["effect undo", &effect.to_string(), &reason]);
    let why = EffectReason { reason };
    let reopened = client.undo_effect(effect, &why, &key).await?.body;
    let text = format!("{effect} is being undone");
    Ok(Answer::done(&reopened, text).next(format!("semel run watch {}", reopened.run)))
}
