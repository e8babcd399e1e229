//! `semel effect show`.

use semel_model::EffectId;
use semel_model::effect::EffectState;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::views;

/// Show one effect.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The effect.
    effect: EffectId,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let found = remote::client(ctx)?.get_effect(arguments.effect).await?;
    let answer = Answer::done(&found, views::effect::detail(&found, ctx.style));
    let answer = if found.state == EffectState::InDoubt {
        views::effect::how_to_settle(answer, found.id)
    } else {
        answer
    };
    Ok(answer.next(format!("semel run show {}", found.run)))
}
