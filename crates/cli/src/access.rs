//! Tokens, as the commands that reach the database make and revoke them.

use semel_engine::{TOKEN_DAYS_MAX, validate_token};
use semel_model::{Label, NamespaceName, Networks, Rights, Role, Span, TokenId};
use semel_server::auth::token_format;
use semel_store::audit::AuditEntry;
use semel_store::tokens::made::MadeTokens;
use semel_store::tokens::{self, DATABASE_OPERATOR, NewToken, TokenView, derived, made};
use semel_store::{Cell, ReadError, namespaces};

use crate::answer::{Problem, chain};

/// The namespace of those who need only one.
pub(crate) const NAMESPACE: &str = "default";

/// The namespace of those who need only one, as a name.
pub(crate) fn namespace() -> Result<NamespaceName, Problem> {
    NAMESPACE
        .parse()
        .map_err(|error| Problem::local(format!("{NAMESPACE}: {error}")))
}

/// A token to be made: what its owner calls it, and what it may do.
pub(crate) struct Wanted<'a> {
    pub(crate) name: &'a str,
    pub(crate) groups: &'a [String],
    pub(crate) role: Option<Role>,
    pub(crate) rights: Rights,
    pub(crate) networks: Networks,
    pub(crate) queues: &'a [Label],
    pub(crate) lifetime: Span,
}

impl<'a> Wanted<'a> {
    /// A token that may do everything, for as long as a token can work.
    pub(crate) fn with_all_rights(name: &'a str, groups: &'a [String]) -> Self {
        Self {
            name,
            groups,
            role: None,
            rights: Rights::ALL,
            networks: Networks::default(),
            queues: &[],
            lifetime: Span::from_secs(TOKEN_DAYS_MAX * 86_400),
        }
    }
}

/// Creates a token and stores its digest. Returns the token itself, which is stored nowhere, and
/// what it is known by.
pub(crate) async fn make_token(
    cell: &Cell,
    wanted: &Wanted<'_>,
) -> Result<(String, TokenId), Problem> {
    let minted = token_format::mint()
        .map_err(|error| Problem::local(format!("the system gives no randomness: {error}")))?;
    let id = TokenId::from_uuid(minted.id);
    let token = NewToken {
        id,
        name: wanted.name,
        digest: &minted.digest,
        lifetime: wanted.lifetime,
        groups: wanted.groups,
        role: wanted.role,
        rights: wanted.rights,
        networks: wanted.networks.clone(),
        queues: wanted.queues,
    };
    validate_token(&token).map_err(Problem::usage)?;
    tokens::insert(cell.home(), &namespace()?, &token)
        .await
        .map_err(|error| of_database(&error))?;
    Ok((minted.text, id))
}

/// A token, whether it works or not.
pub(crate) async fn find_token(cell: &Cell, id: TokenId) -> Result<Option<TokenView>, Problem> {
    let namespace_id = namespace_id(cell).await?;
    let found = tokens::find_view(cell.home(), namespace_id, id).await;
    found.map_err(|error| of_database(&error))
}

/// The newest tokens: those that work, or all.
pub(crate) async fn list_tokens(
    cell: &Cell,
    all: bool,
    limit: u16,
) -> Result<Vec<TokenView>, Problem> {
    let namespace_id = namespace_id(cell).await?;
    let found = tokens::list(cell.home(), namespace_id, all, None, limit).await;
    found.map_err(|error| of_database(&error))
}

/// Revokes a token, and with it what it made, if so asked for. Returns what it made, and what worked until
/// now. The same again is no change.
pub(crate) async fn revoke_token(
    cell: &Cell,
    token: &TokenView,
    with_made: bool,
    reason: Option<&str>,
) -> Result<MadeTokens, Problem> {
    let namespace_id = namespace_id(cell).await?;
    let subject = format!("{} {}", token.name, token.id);
    let act = AuditEntry::new(namespace_id, DATABASE_OPERATOR, "token.revoke", &subject);
    let act = with_reason(act, reason)?;
    let home = cell.home();
    if with_made {
        let made = made::revoke(home, namespace_id, token.id, &act).await;
        let made = made.map_err(|error| of_database(&error))?;
        let count = made.len() as u64;
        let newest = made::newest(made);
        return Ok(MadeTokens { newest, count });
    }
    let revoked = tokens::revoke(home, namespace_id, token.id, &act).await;
    revoked.map_err(|error| of_database(&error))?;
    let made = made::list(home, namespace_id, token.id).await;
    made.map_err(|error| of_database(&error))
}

/// Revokes the tokens of all namespaces that may have been derived from the secret key. Returns the newest of
/// them, and how many they were.
pub(crate) async fn revoke_derived(
    cell: &Cell,
    reason: Option<&str>,
) -> Result<(Vec<TokenView>, u64), Problem> {
    let namespace_id = namespace_id(cell).await?;
    let act = AuditEntry::new(namespace_id, DATABASE_OPERATOR, "token.revoke", "");
    let act = with_reason(act, reason)?;
    let nobody = TokenId::from_uuid(uuid::Uuid::nil());
    let revoked = derived::revoke(cell.home(), None, nobody, &act).await;
    let revoked = revoked.map_err(|error| of_database(&error))?;
    let count = revoked.len() as u64;
    Ok((made::newest(revoked), count))
}

fn with_reason(act: AuditEntry, reason: Option<&str>) -> Result<AuditEntry, Problem> {
    match reason {
        Some(reason) => act
            .because(reason)
            .map_err(|error| Problem::usage(error.to_string())),
        None => Ok(act),
    }
}

/// Whether a token works.
pub(crate) async fn works(cell: &Cell, text: &str) -> Result<bool, Problem> {
    let Some(presented) = token_format::parse(text) else {
        return Ok(false);
    };
    let found = tokens::find(cell.home(), presented.id)
        .await
        .map_err(|error| of_database(&error))?;
    Ok(found.is_some_and(|row| presented.matches(&row.digest)))
}

async fn namespace_id(cell: &Cell) -> Result<i32, Problem> {
    let ensured = namespaces::ensure(cell.home(), &namespace()?).await;
    ensured.map_err(|error| of_database(&error))
}

fn of_database(error: &ReadError) -> Problem {
    Problem::local(chain(error)).hint(
        "`semel migrate` brings the schema up to date, `semel token list --all` shows the tokens",
    )
}
