//! `semel effect undo` and `semel effect redo`: one done effect of an ended run, taken back or
//! performed again.

use semel_api::types::EffectReason;
use semel_model::EffectId;
use semel_model::event::StepVerb;

use crate::answer::{Answer, Problem};
use crate::commands::Repeat;
use crate::context::Context;
use crate::remote;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The effect.
    effect: EffectId,
    /// The reason, for the audit log.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    repeat: Repeat,
}

pub(crate) async fn run(
    ctx: &Context,
    verb: StepVerb,
    arguments: &Arguments,
) -> Result<Answer, Problem> {
    let effect = arguments.effect;
    let reason = arguments.reason.clone();
    let client = remote::client(ctx)?;
    let (command, done) = match verb {
        StepVerb::Undo => ("effect undo", "is being undone"),
        StepVerb::Redo => ("effect redo", "is performed again, under a new key"),
    };
    // Each happens once to an effect: after that it is undone, or another one.
    let key = arguments
        .repeat
        .key_or(&[command, &effect.to_string(), &reason]);
    let why = EffectReason { reason };
    let reopened = client.reopen_effect(effect, verb, &why, &key).await?.body;
    let text = format!("{effect} {done}");
    Ok(Answer::done(&reopened, text).next(format!("semel run watch {}", reopened.run)))
}
