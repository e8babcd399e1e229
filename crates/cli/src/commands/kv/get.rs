//! `semel kv get`.

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;

/// Print the value of an entry, as JSON.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The entry's name.
    entry: String,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let found = remote::client(ctx)?.get_entry(&arguments.entry).await?;
    let value = found.value.clone().unwrap_or_default();
    let text = serde_json::to_string_pretty(&value).unwrap_or_default();
    Ok(Answer::done(&found, text))
}
