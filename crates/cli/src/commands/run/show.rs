//! `semel run show`: a run with its history.

use semel_model::RunId;

use super::person::Wanted;
use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::views::{self, Extent};

/// Show a run, its timeline and its effects.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The run.
    run: RunId,
    /// Show the whole result, however long it is.
    #[arg(long)]
    full: bool,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let client = remote::client(ctx)?;
    let found = client.get_run(arguments.run).await?;
    let extent = Extent::of(arguments.full);
    let answer = Answer::done(&found, views::run::detail(&found, extent, ctx.style));
    let answer = Wanted::find(&client, &found).await?.tell(answer);
    let doubt = found
        .effects
        .iter()
        .find(|effect| effect.state == semel_model::effect::EffectState::InDoubt);
    Ok(match doubt {
        Some(effect) => views::effect::how_to_settle(answer, effect.id)
            .next(format!("semel effect show {}", effect.id)),
        None if found.run.state.is_ended() => answer,
        None => answer.next(format!("semel run watch {}", arguments.run)),
    })
}
