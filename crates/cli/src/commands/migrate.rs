//! `semel migrate`: brings the schema up to date, and makes the first token.

use semel_store::{Cell, MigrateError, tokens};
use serde_json::json;

use super::serve::Database;
use crate::access;
use crate::answer::{Answer, Problem, chain};
use crate::code;
use crate::context::Context;
use crate::outcome::Outcome;

/// Migrate the database's schema to this version.
///
/// Safe to repeat, and safe while servers run. If no valid token exists yet, the first one is
/// created and shown: once, because only its digest is stored. It has all rights; `semel token
/// create` makes one with fewer.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  DATABASE_URL=postgresql://semel@db.internal/semel semel migrate"
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    database: Database,
    /// Create another token, although there are some.
    #[arg(long)]
    new_token: bool,
    /// Create no token, not even the first: for units and containers, whose output is kept in logs.
    #[arg(long, conflicts_with = "new_token")]
    no_token: bool,
    /// The token's name: its holder is known by this name, to approvals too.
    #[arg(long, value_name = "NAME", requires = "new_token")]
    token_name: Option<String>,
    /// A group that the token's owner belongs to; may be given more than once.
    #[arg(long, value_name = "GROUP", requires = "new_token")]
    group: Vec<String>,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let cell = arguments.database.connect(ctx).await?;
    let applied = apply(&cell).await?;
    let first = tokens::count(cell.home())
        .await
        .map_err(|error| Problem::local(chain(&error)))?
        == 0;
    let token = if (first && !arguments.no_token) || arguments.new_token {
        let usual = if first { "first" } else { "migrate" };
        let name = arguments.token_name.as_deref().unwrap_or(usual);
        let wanted = access::Wanted::with_all_rights(name, &arguments.group);
        Some(access::make_token(&cell, &wanted).await?.0)
    } else {
        None
    };
    let note = match applied.as_slice() {
        [] => "the schema is up to date".to_owned(),
        names => format!("applied {}", names.join(", ")),
    };
    let data = json!({"applied": applied, "token": token});
    let answer = Answer::done(data, token.clone().unwrap_or_default()).note(note);
    Ok(match token {
        Some(_) => answer
            .note("this token is shown only once: store it, and set it as SEMEL_TOKEN")
            .next("semel serve"),
        None => answer.next("semel serve"),
    })
}

/// Applies what is missing.
pub(crate) async fn apply(cell: &Cell) -> Result<Vec<&'static str>, Problem> {
    semel_store::migrate(cell).await.map_err(|error| {
        let outcome = match &error {
            MigrateError::Connect(_) => Outcome::Unreachable,
            MigrateError::Changed { .. }
            | MigrateError::Newer { .. }
            | MigrateError::Foreign { .. } => Outcome::Conflict,
            MigrateError::Failed { .. }
            | MigrateError::History(_)
            | MigrateError::Partitions(_) => Outcome::Failed,
        };
        Problem::new(outcome, code::MIGRATION_FAILED, chain(&error))
            .hint("the file that failed was rolled back; `semel doctor` checks further")
    })
}
