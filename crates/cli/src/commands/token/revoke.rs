//! `semel token revoke`.

use semel_api::Code;
use semel_api::types::{RevokeToken, Token};
use semel_model::TokenId;
use semel_store::Cell;

use crate::access;
use crate::answer::{Answer, Problem};
use crate::commands::Repeat;
use crate::commands::serve::Database;
use crate::context::Context;
use crate::outcome::Outcome;
use crate::remote;
use crate::text::printable;

/// Revoke a token: within five seconds no server accepts it.
///
/// Revoking is final and safe to repeat. What the token did stays done.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The token's id, as `semel token list` shows it: tok_ and the 32 digits after semel_.
    id: TokenId,
    /// Why, for the audit record.
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    repeat: Repeat,
    #[command(flatten)]
    database: Database,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let revoked = match super::database(ctx, &arguments.database).await? {
        Some(cell) => revoke_in(&cell, arguments).await?,
        None => revoke_over(ctx, arguments).await?,
    };
    let text = format!("revoked {} ({})", printable(&revoked.name), revoked.id);
    Ok(Answer::done(&revoked, text).next("semel token list"))
}

async fn revoke_over(ctx: &Context, arguments: &Arguments) -> Result<Token, Problem> {
    let revoke = RevokeToken {
        reason: arguments.reason.clone(),
    };
    let (id, reason) = (arguments.id, arguments.reason.as_deref());
    let words = ["token revoke", &id.to_string(), reason.unwrap_or_default()];
    let key = arguments.repeat.key_or(&words);
    let revoked = remote::client(ctx)?.revoke_token(id, &revoke, &key).await?;
    Ok(revoked.body)
}

async fn revoke_in(cell: &Cell, arguments: &Arguments) -> Result<Token, Problem> {
    let found = access::find_token(cell, arguments.id).await?;
    let found = found.ok_or_else(unknown)?;
    access::revoke_token(cell, &found, arguments.reason.as_deref()).await?;
    let revoked = access::find_token(cell, arguments.id).await?;
    revoked.map(super::view).ok_or_else(unknown)
}

fn unknown() -> Problem {
    let code = Code::TokenNotFound;
    Problem::new(Outcome::NotFound, code.as_str(), code.title()).hint(code.hint())
}
