//! `semel secret list`.

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::style::{cell, render};
use crate::text::ago;
use crate::views::maybe_ago;

/// List the secrets of the namespace, without their values.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

pub(crate) async fn run(ctx: &Context, Arguments {}: &Arguments) -> Result<Answer, Problem> {
    let page = remote::client(ctx)?.list_secrets().await?;
    let mut table = ctx.style.table(&[
        "SECRET",
        "VERSION",
        "SET",
        "FORMER UNTIL",
        "HOSTS",
        "CONNECTIONS",
    ]);
    for secret in &page.items {
        let connections = match secret.connections.is_empty() {
            true => "-".to_owned(),
            false => secret.connections.join(", "),
        };
        let hosts = match secret.hosts.is_empty() {
            true => "any host".to_owned(),
            false => secret.hosts.join(", "),
        };
        table.add_row([
            cell(&secret.name),
            cell(secret.version.to_string()),
            cell(ago(secret.set_at)),
            cell(maybe_ago(secret.former_until)),
            cell(hosts),
            cell(connections),
        ]);
    }
    let answer = Answer::done(&page, render(&table));
    Ok(if page.items.is_empty() {
        answer.note("no secrets yet").next("semel secret set NAME")
    } else {
        answer
    })
}
