//! `semel secret rotate`.

use crate::answer::{Answer, Problem};
use crate::commands::Repeat;
use crate::context::Context;
use crate::remote;

/// Seal every secret of the namespace with a new key, and that key with the current master key.
///
/// Values stay as they are. After it no former master key is needed for this namespace. Safe to
/// repeat, and to break off.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    repeat: Repeat,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let client = remote::client(ctx)?;
    let rotated = client.rotate_secrets(arguments.repeat.given()).await?.body;
    let text = format!("{} sealed anew", rotated.secrets);
    Ok(Answer::done(rotated, text).next("semel doctor"))
}
