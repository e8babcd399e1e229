//! `semel subscription delete`.

use semel_model::Label;

use crate::answer::{Answer, Problem};
use crate::commands::Repeat;
use crate::context::Context;
use crate::remote;

/// Delete a subscription. Its due deliveries are dropped.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The subscription.
    name: Label,
    #[command(flatten)]
    repeat: Repeat,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let client = remote::client(ctx)?;
    let name = &arguments.name;
    // Another subscription may have the name later: removing that one is another command.
    let key = match arguments.repeat.given() {
        Some(key) => key.to_owned(),
        None => {
            let found = client.get_subscription(name).await?;
            let made = found.created_at.to_string();
            remote::key_of(&["subscription delete", name.as_str(), &made])
        }
    };
    let deleted = client.delete_subscription(name, Some(&key)).await?.body;
    let answer = Answer::done(&deleted, format!("deleted {name}"));
    let answer = match deleted.failed {
        0 => answer,
        count => answer.note(format!("{count} due deliveries were dropped")),
    };
    Ok(answer.next("semel subscription list"))
}
