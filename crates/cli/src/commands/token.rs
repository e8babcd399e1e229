//! `semel token`: who may use the API, and what each may do.
//!
//! With a token, these commands ask the server, and need the right `admin`. Where there is none, on a
//! machine that reaches the database, they write there: that is how the first token is made, and how
//! to get in again when all are lost.

mod create;
mod list;
mod revoke;

use semel_api::types::Token;
use semel_model::Label;
use semel_store::Cell;
use semel_store::tokens::TokenView;

use super::serve::Database;
use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::text::printable;

/// Create, list and revoke API tokens.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  semel token create ci --role editor --right promote
  semel token create ada --role approver --group finance
  semel token create resizer --role worker --queue images --network 10.0.0.0/8
  semel token list
  semel token revoke tok_… --reason 'the laptop was lost' --with-made
  semel token revoke --derived --reason 'the secret key was changed'")]
pub(crate) enum Command {
    Create(create::Arguments),
    List(list::Arguments),
    Revoke(revoke::Arguments),
}

pub(crate) async fn run(ctx: &Context, command: &Command) -> Result<Answer, Problem> {
    match command {
        Command::Create(arguments) => create::run(ctx, arguments).await,
        Command::List(arguments) => list::run(ctx, arguments).await,
        Command::Revoke(arguments) => revoke::run(ctx, arguments).await,
    }
}

/// The database, where the command is to use it: it is named on the command line, or there is no
/// token for the server.
async fn database(ctx: &Context, database: &Database) -> Result<Option<Cell>, Problem> {
    let direct = database.is_given() || (ctx.token().is_none() && !database.is_missing(ctx));
    match direct {
        true => Ok(Some(database.connect(ctx).await?)),
        false => Ok(None),
    }
}

/// Queues in a list; nothing where all are meant.
fn spell_queues(queues: &[Label]) -> String {
    let names: Vec<&str> = queues.iter().map(Label::as_str).collect();
    names.join(", ")
}

/// A token in its wire form.
fn view(token: TokenView) -> semel_api::types::Token {
    semel_api::types::Token {
        id: token.id,
        name: token.name,
        role: token.role,
        rights: token.rights,
        groups: token.groups,
        networks: token.networks,
        queues: token.queues,
        created_at: token.created_at,
        expires_at: token.expires_at,
        last_used_at: token.last_used_at,
        revoked_at: token.revoked_at,
        made_by: token.made_by,
        derived: token.derived,
    }
}

/// Names the tokens that a revoked token or person made, and says which of them still work.
pub(super) fn name_made(mut answer: Answer, made: &[Token], count: u64) -> Answer {
    for token in made {
        let (name, id) = (printable(&token.name), token.id);
        answer = answer.note(match token.revoked_at {
            Some(_) => format!("revoked with it: {name} ({id})"),
            None => format!("it made {name} ({id}), which still works"),
        });
    }
    match count.saturating_sub(made.len() as u64) {
        0 => answer,
        more => answer.note(format!("and {more} more that it made")),
    }
}
