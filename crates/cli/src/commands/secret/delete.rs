//! `semel secret delete`.

use semel_model::Label;

use crate::answer::{Answer, Problem};
use crate::commands::Repeat;
use crate::context::Context;
use crate::remote;

/// Delete a secret with all its versions. What uses it sends nothing until it is set again.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The secret.
    name: Label,
    #[command(flatten)]
    repeat: Repeat,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let name = &arguments.name;
    let client = remote::client(ctx)?;
    let deleted = client.delete_secret(name, arguments.repeat.given()).await?;
    let mut answer = Answer::done(&deleted.body, format!("deleted {name}"));
    for connection in &deleted.body.connections {
        answer = answer.note(format!(
            "the connection {connection} sends nothing without it"
        ));
    }
    Ok(answer.next("semel secret list"))
}
