//! `semel token revoke`.

use semel_api::Code;
use semel_api::types::{RevokeDerivedTokens, RevokeToken, RevokedDerivedTokens, RevokedToken};
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
/// Revoking is final and safe to repeat. What the token did stays done. The tokens that it made are
/// named, and still work without --with-made.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The token's id, as `semel token list` shows it: tok_ and the 32 digits after semel_.
    #[arg(required_unless_present = "derived")]
    id: Option<TokenId>,
    /// Also revoke the tokens that it made, and those that they made.
    #[arg(long)]
    with_made: bool,
    /// Revoke every token whose secret may have been derived from the secret key, as earlier versions did:
    /// of the namespace, or with access to the database of all.
    #[arg(long, conflicts_with_all = ["id", "with_made"])]
    derived: bool,
    /// Why, for the audit record.
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    repeat: Repeat,
    #[command(flatten)]
    database: Database,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let direct = super::database(ctx, &arguments.database).await?;
    let Some(id) = arguments.id else {
        return revoke_derived(ctx, direct.as_ref(), arguments).await;
    };
    let revoked = match direct {
        Some(cell) => revoke_in(&cell, id, arguments).await?,
        None => revoke_over(ctx, id, arguments).await?,
    };
    let token = &revoked.token;
    let text = format!("revoked {} ({})", printable(&token.name), token.id);
    let answer = super::name_made(
        Answer::done(&revoked, text),
        &revoked.made,
        revoked.made_count,
    );
    let answer = match arguments.with_made || revoked.made.is_empty() {
        true => answer,
        false => answer.decision(
            "to revoke these as well",
            format!("semel token revoke {id} --with-made"),
        ),
    };
    Ok(answer.next("semel token list"))
}

async fn revoke_over(
    ctx: &Context,
    id: TokenId,
    arguments: &Arguments,
) -> Result<RevokedToken, Problem> {
    let revoke = RevokeToken {
        reason: arguments.reason.clone(),
        with_made: arguments.with_made,
    };
    let id_text = id.to_string();
    let reason = arguments.reason.as_deref().unwrap_or_default();
    let mut words = vec!["token revoke", id_text.as_str(), reason];
    if arguments.with_made {
        words.push("with made");
    }
    let key = arguments.repeat.key_or(&words);
    let revoked = remote::client(ctx)?.revoke_token(id, &revoke, &key).await?;
    Ok(revoked.body)
}

async fn revoke_in(
    cell: &Cell,
    id: TokenId,
    arguments: &Arguments,
) -> Result<RevokedToken, Problem> {
    let found = access::find_token(cell, id).await?;
    let found = found.ok_or_else(unknown)?;
    let reason = arguments.reason.as_deref();
    let made = access::revoke_token(cell, &found, arguments.with_made, reason).await?;
    let revoked = access::find_token(cell, id).await?;
    let token = super::view(revoked.ok_or_else(unknown)?);
    Ok(RevokedToken {
        token,
        made: made.newest.into_iter().map(super::view).collect(),
        made_count: made.count,
    })
}

async fn revoke_derived(
    ctx: &Context,
    direct: Option<&Cell>,
    arguments: &Arguments,
) -> Result<Answer, Problem> {
    let revoked = match direct {
        Some(cell) => {
            let reason = arguments.reason.as_deref();
            let (newest, count) = access::revoke_derived(cell, reason).await?;
            RevokedDerivedTokens {
                count,
                tokens: newest.into_iter().map(super::view).collect(),
                own_left: false,
            }
        }
        None => {
            let revoke = RevokeDerivedTokens {
                reason: arguments.reason.clone(),
            };
            remote::client(ctx)?.revoke_derived_tokens(&revoke).await?
        }
    };
    let text = format!(
        "revoked {} tokens that may have been derived",
        revoked.count
    );
    let mut answer = Answer::done(&revoked, text);
    for token in &revoked.tokens {
        answer = answer.note(format!("revoked {} ({})", printable(&token.name), token.id));
    }
    if revoked.own_left {
        answer = answer.note(
            "your own token may have been derived, too: create another one, and revoke this one \
             with it",
        );
    }
    Ok(answer.next("semel token list"))
}

fn unknown() -> Problem {
    let code = Code::TokenNotFound;
    Problem::new(Outcome::NotFound, code.as_str(), code.title()).hint(code.hint())
}
