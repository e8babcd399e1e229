//! `semel token list`.

use semel_api::types::{Page, Token, TokenFilter};
use semel_model::{Rights, Role};

use crate::access;
use crate::answer::{Answer, Problem};
use crate::commands::serve::Database;
use crate::context::Context;
use crate::remote;
use crate::style::{cell, render};
use crate::text::ago;

/// List the tokens of the namespace, the newest first. No command shows a token again.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// List those as well that were revoked or have expired.
    #[arg(long)]
    all: bool,
    /// How many to list at most.
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    limit: u16,
    /// Where the page before ended.
    #[arg(long, conflicts_with = "database")]
    cursor: Option<String>,
    #[command(flatten)]
    database: Database,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let page = find(ctx, arguments).await?;
    let header = [
        "ID", "NAME", "ROLE", "RIGHTS", "GROUPS", "NETWORKS", "QUEUES", "CREATED", "USED",
        "EXPIRES",
    ];
    let mut table = ctx.style.table(&header);
    for token in &page.items {
        table.add_row([
            cell(token.id.to_string()),
            cell(&token.name),
            cell(token.role.map_or("-", Role::as_str)),
            cell(spelled(token.rights)),
            cell(token.groups.join(", ")),
            cell(limited(&token.networks.to_string(), "any")),
            cell(limited(&super::spell_queues(&token.queues), "all")),
            cell(ago(token.created_at)),
            cell(token.last_used_at.map_or_else(|| "never".to_owned(), ago)),
            cell(end(token)),
        ]);
    }
    let answer = Answer::done(&page, render(&table));
    Ok(match &page.next {
        Some(next) => answer.next(format!("semel token list --cursor {next}")),
        None => answer,
    })
}

async fn find(ctx: &Context, arguments: &Arguments) -> Result<Page<Token>, Problem> {
    let (all, limit) = (arguments.all, arguments.limit);
    if let Some(direct) = super::database(ctx, &arguments.database).await? {
        let found = access::list_tokens(&direct, all, limit).await?;
        return Ok(Page {
            items: found.into_iter().map(super::view).collect(),
            next: None,
        });
    }
    let filter = TokenFilter {
        all,
        limit: Some(limit),
        cursor: arguments.cursor.clone(),
    };
    Ok(remote::client(ctx)?.list_tokens(&filter).await?)
}

fn end(token: &Token) -> String {
    match token.revoked_at {
        Some(at) => format!("revoked {}", ago(at)),
        None => ago(token.expires_at),
    }
}

/// A list, or the word for none.
fn limited(list: &str, none: &str) -> String {
    match list.is_empty() {
        true => none.to_owned(),
        false => list.to_owned(),
    }
}

fn spelled(rights: Rights) -> String {
    match rights == Rights::ALL {
        true => "all".to_owned(),
        false => rights.to_string(),
    }
}
