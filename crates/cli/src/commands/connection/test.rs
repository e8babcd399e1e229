//! `semel connection test`.

use semel_model::Label;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::output::Progress;
use crate::remote;

/// Test whether a destination can be reached. Changes nothing there.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The connection.
    name: Label,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let client = remote::client(ctx)?;
    let progress = Progress::begin(ctx.reader, "testing …");
    let tried = client.test_connection(&arguments.name).await?;
    drop(progress);
    let answer = super::tell(&tried);
    Ok(match tried.ok {
        true => answer,
        false => answer.next(format!("semel connection show {}", arguments.name)),
    })
}
