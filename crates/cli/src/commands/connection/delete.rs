//! `semel connection delete`.

use semel_model::Label;

use crate::answer::{Answer, Problem};
use crate::commands::Repeat;
use crate::context::Context;
use crate::remote;

/// Delete a connection that no live flow uses. Its secrets stay.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The connection.
    name: Label,
    #[command(flatten)]
    repeat: Repeat,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let client = remote::client(ctx)?;
    let name = &arguments.name;
    // Another connection may have the name later: removing that one is another command.
    let key = match arguments.repeat.given() {
        Some(key) => key.to_owned(),
        None => {
            let found = client.get_connection(name).await?;
            let made = found.created_at.to_string();
            remote::key_of(&["connection delete", name.as_str(), &made])
        }
    };
    let deleted = client.delete_connection(name, Some(&key)).await?.body;
    Ok(Answer::done(&deleted, format!("deleted {name}")).next("semel connection list"))
}
