//! `semel once settle`: an operator's decision on a key in doubt.

use semel_api::types::{GetOnce, OnceEffect, Settle, SettleOnce, Verdict};
use semel_model::{HolderId, Label};

use super::stored;
use crate::answer::{Answer, Problem};
use crate::commands::read_json;
use crate::context::Context;
use crate::remote;
use crate::text::printable;

/// Record what happened under a key in doubt.
///
/// Check the destination first: `semel once show` prints the idempotency key that the command could
/// pass on to it. After *did not happen* a repeat runs the command again, under the same key. If the
/// process was lost, *did not happen* is accepted only once it cannot be running any more.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  semel once settle charge:o-1 --happened --external-id ch_77 --reason 'seen at the bank'
  semel once settle charge:o-1 --did-not-happen --reason 'no such charge at the bank'")]
#[command(group = clap::ArgGroup::new("verdict").required(true))]
pub(crate) struct Arguments {
    /// The scope of the key.
    #[arg(long, value_name = "NAME")]
    scope: Option<Label>,
    /// The key.
    key: String,
    /// It happened: every repeat is done.
    #[arg(long, group = "verdict")]
    happened: bool,
    /// It did not happen: a repeat runs the command.
    #[arg(long, group = "verdict")]
    did_not_happen: bool,
    /// The destination's identifier of what was created.
    #[arg(long, requires = "happened", value_name = "ID")]
    external_id: Option<String>,
    /// The result that repeats get: JSON, @FILE, or - for stdin. They print its `stdout`.
    #[arg(long, requires = "happened", value_name = "JSON")]
    result: Option<String>,
    /// The reason, for the audit log.
    #[arg(long)]
    reason: String,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let client = remote::client(ctx)?;
    let get = GetOnce {
        scope: arguments.scope.clone(),
        key: arguments.key.clone(),
    };
    let found = client.get_once(&get).await?;
    // The token says which doubt is settled, however often this is sent.
    let Some(token) = found.token else {
        return settle_step(ctx, arguments, &found).await;
    };
    let settle = SettleOnce {
        scope: get.scope,
        key: get.key,
        token,
        happened: arguments.happened,
        result: arguments.result.as_deref().map(read_json).transpose()?,
        external_id: arguments.external_id.clone(),
        reason: arguments.reason.clone(),
    };
    let settled = client.settle_once(&settle).await?.body;
    let name = printable(&settle.key);
    let text = match settle.happened {
        true => format!("{name} happened; repeats are done"),
        false => format!("{name} did not happen; a repeat runs the command"),
    };
    let show = stored::line_to_show(settle.scope.as_ref(), &settle.key);
    Ok(Answer::done(&settled, text).next(show))
}

/// The key is a step's: its run is settled, or the named effect where the run is over.
async fn settle_step(
    ctx: &Context,
    arguments: &Arguments,
    found: &OnceEffect,
) -> Result<Answer, Problem> {
    let settle = Settle {
        verdict: match arguments.happened {
            true => Verdict::Happened,
            false => Verdict::DidNotHappen,
        },
        external_id: arguments.external_id.clone(),
        result: arguments.result.as_deref().map(read_json).transpose()?,
        attempt: None,
        reason: arguments.reason.clone(),
    };
    // A repeat of what is settled says so: no two of these are one command.
    let key = remote::key_of(&["once settle", &HolderId::generate().to_string()]);
    let effect = found.effect_key;
    let client = remote::client(ctx)?;
    let settled = client.settle_effect(effect, &settle, &key).await?.body;
    let text = format!("{effect} is settled; runs that wait for its key continue");
    Ok(Answer::done(&settled, text).next(format!("semel once show {effect}")))
}
