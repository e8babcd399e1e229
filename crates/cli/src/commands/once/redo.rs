//! `semel once redo`: lets a done key run again.

use semel_api::types::{GetOnce, RedoOnce};
use semel_model::Label;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::text::printable;

/// Let the command of a done key run again, as a new intent.
///
/// The next `semel once` under the key runs the command, which gets another SEMEL_KEY: the
/// destination performs it a second time.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  semel once redo report:2026-07 --reason 'the file was lost'")]
pub(crate) struct Arguments {
    /// The scope of the key.
    #[arg(long, value_name = "NAME")]
    scope: Option<Label>,
    /// The key.
    key: String,
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
    // Token and key say which intent is redone, however often this is sent.
    let found = client.get_once(&get).await?;
    let redo = RedoOnce {
        scope: get.scope,
        key: get.key,
        token: found.token,
        effect_key: Some(found.effect_key),
        reason: arguments.reason.clone(),
    };
    let redone = client.redo_once(&redo).await?.body;
    let text = format!("the next command under {} runs again", printable(&redo.key));
    Ok(Answer::done(&redone, text))
}
