//! `semel effect redo`: performs one done effect again.

use semel_api::types::EffectReason;
use semel_model::EffectId;

use crate::answer::{Answer, Problem};
use crate::commands::Repeat;
use crate::context::Context;
use crate::remote;

/// Perform one done effect of an ended run again, under a new key.
///
/// This is the only way to perform a done effect again. The run then ends as it had ended.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  semel effect redo eff_0123… --reason 'the customer asked for it'")]
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
    // An effect is performed again once: after that it is another one, or undone.
    let key = arguments
        .repeat
        .key_or(&["effect redo", &effect.to_string(), &reason]);
    let why = EffectReason { reason };
    let reopened = client.redo_effect(effect, &why, &key).await?.body;
    let text = format!("{effect} is performed again, under a new key");
    Ok(Answer::done(&reopened, text).next(format!("semel run watch {}", reopened.run)))
}
