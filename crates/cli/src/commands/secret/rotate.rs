//! `semel secret rotate`.

use crate::answer::{Answer, Problem};
use crate::commands::Repeat;
use crate::context::Context;
use crate::remote;

/// Encrypt every secret of the namespace with a new key, and that key with the current master key.
///
/// Values stay the same. Afterwards this namespace needs no former master key. Safe to repeat, and
/// to interrupt.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    repeat: Repeat,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let client = remote::client(ctx)?;
    let rotated = client.rotate_secrets(arguments.repeat.given()).await?.body;
    let text = format!("{} re-encrypted", rotated.secrets);
    Ok(Answer::done(rotated, text).next("semel doctor"))
}
