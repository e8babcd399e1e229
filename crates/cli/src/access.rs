//! Tokens, as the commands that reach the database make them.

use semel_model::{NamespaceName, Span};
use semel_server::auth::token_format;
use semel_store::{Cell, tokens};

use crate::answer::{Problem, chain};

/// The namespace of those who need only one.
pub(crate) const NAMESPACE: &str = "default";

/// How long a token works, in days.
const LIFETIME_DAYS: u64 = 365;

/// The namespace of those who need only one, as a name.
pub(crate) fn namespace() -> Result<NamespaceName, Problem> {
    NAMESPACE
        .parse()
        .map_err(|error| Problem::local(format!("{NAMESPACE}: {error}")))
}

/// Creates a token and stores its digest. Returns the token itself, which is stored nowhere.
pub(crate) async fn make_token(
    cell: &Cell,
    name: &str,
    groups: &[String],
) -> Result<String, Problem> {
    let minted = token_format::mint()
        .map_err(|error| Problem::local(format!("the system gives no randomness: {error}")))?;
    let lifetime = Span::from_secs(LIFETIME_DAYS * 86_400);
    tokens::insert(
        cell.home(),
        minted.id,
        &namespace()?,
        name,
        &minted.digest,
        lifetime,
        groups,
    )
    .await
    .map_err(|error| Problem::local(chain(&error)))?;
    Ok(minted.text)
}

/// Whether a token works.
pub(crate) async fn works(cell: &Cell, text: &str) -> Result<bool, Problem> {
    let Some(presented) = token_format::parse(text) else {
        return Ok(false);
    };
    let found = tokens::find(cell.home(), presented.id)
        .await
        .map_err(|error| Problem::local(chain(&error)))?;
    Ok(found.is_some_and(|row| presented.matches(&row.digest)))
}
