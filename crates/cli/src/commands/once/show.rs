//! `semel once show`.

use semel_api::types::GetOnce;
use semel_model::{Label, NamedEffectState};

use super::stored;
use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::views;

/// Show what happened under a key.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The scope of the key.
    #[arg(long, value_name = "NAME")]
    scope: Option<Label>,
    /// The key; or the key that the destination was sent, `eff_…`.
    key: String,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let get = GetOnce {
        scope: arguments.scope.clone(),
        key: arguments.key.clone(),
    };
    let client = remote::client(ctx)?;
    let found = match (get.key.parse(), &get.scope) {
        (Ok(key), None) => client.get_once_by_key(key).await?,
        (Ok(_) | Err(_), _) => client.get_once(&get).await?,
    };
    let answer = Answer::done(&found, views::once::detail(&found, ctx.style));
    Ok(match (found.state, found.run) {
        (NamedEffectState::InDoubt, Some(_)) => answer.next(format!(
            "semel doubt settle {} --happened (or --did-not-happen) --reason …",
            found.effect_key
        )),
        (NamedEffectState::InDoubt, None) => answer.next(stored::settle_line(&found)),
        (
            NamedEffectState::Pending
            | NamedEffectState::Done
            | NamedEffectState::Failed
            | NamedEffectState::Undoing,
            _,
        ) => answer,
    })
}
