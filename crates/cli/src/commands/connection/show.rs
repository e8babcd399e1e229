//! `semel connection show`.

use semel_model::Label;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::text::{ago, printable_lines};
use crate::views::pause;

/// Show a connection, with the names of its secrets and without their values.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The connection.
    name: Label,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let name = &arguments.name;
    let found = remote::client(ctx)?.get_connection(name).await?;
    let described = serde_json::to_string_pretty(&found.connection).unwrap_or_default();
    let title = ctx.style.bold(name.as_str());
    let text = format!(
        "{title} ({}, version {}, changed {})\n\n{}",
        found.kind,
        found.version,
        ago(found.changed_at),
        printable_lines(&described)
    );
    let mut answer = Answer::done(&found, text);
    answer.notes.extend(found.paused.as_ref().map(pause::tell));
    for secret in &found.missing {
        answer = answer
            .note(format!("the secret {secret} is not set: nothing is sent"))
            .next(format!("semel secret set {secret}"));
    }
    Ok(answer.next(format!("semel connection test {name}")))
}
