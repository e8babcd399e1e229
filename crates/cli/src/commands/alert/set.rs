//! `semel alert set`.

use semel_api::types::SetAlerts;
use semel_model::Label;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;

/// Set where the alerts of the namespace go, in place of what was set before. Safe to repeat.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  semel alert set ops-mail --to ops@example.com --to oncall@example.com
  semel alert set ops-slack --to '#ops'
  semel alert set ops-hook")]
pub(crate) struct Arguments {
    /// A connection of kind smtp, slack or webhook.
    connection: Label,
    /// A mail address, or the one channel of a chat; repeat it for further addresses.
    #[arg(long, value_name = "RECIPIENT")]
    to: Vec<String>,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let set = SetAlerts {
        connection: arguments.connection.to_string(),
        to: arguments.to.clone(),
    };
    let done = remote::client(ctx)?.set_alerts(&set, None).await?.body;
    let text = format!("alerts go to {} from now on", done.connection);
    let answer = Answer::done(&done, text).note("`semel alert test` sends a message there now");
    Ok(answer.next("semel alert list"))
}
