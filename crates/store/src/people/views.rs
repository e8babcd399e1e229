//! People, for those who manage a namespace: who signed in there, and who is kept out.

use jiff::Timestamp;
use semel_model::{Rights, Role, TokenId};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::audit::{self, AuditEntry};
use crate::cell::{HomeCell, ReadError};
use crate::listed::NEWEST;
use crate::tokens::TokenView;
use crate::tokens::made::revoke_by;

const LIST: &str = "
    SELECT id, name, issuer, subject, role, rights, groups, created_at, last_used_at, revoked_at
      FROM tokens
     WHERE namespace_id = $1 AND kind = 'person'
       AND (created_at, id) < ($2, $3)
     ORDER BY created_at DESC, id DESC
     LIMIT $4";

const FIND: &str = "
    SELECT id, name, issuer, subject, role, rights, groups, created_at, last_used_at, revoked_at
      FROM tokens
     WHERE namespace_id = $1 AND id = $2 AND kind = 'person'";

const REVOKE: &str = "
    UPDATE tokens SET revoked_at = moment()
     WHERE namespace_id = $1 AND id = $2 AND kind = 'person' AND revoked_at IS NULL";

/// What the person had before is over: they sign in again.
const RESTORE: &str = "
    UPDATE tokens SET revoked_at = NULL, expires_at = least(expires_at, moment())
     WHERE namespace_id = $1 AND id = $2 AND kind = 'person' AND revoked_at IS NOT NULL";

pub(crate) const STATEMENTS: &[&str] = &[LIST, FIND, REVOKE, RESTORE];

/// A person, for the people who manage a namespace.
#[derive(Clone, Debug)]
pub struct PersonView {
    /// What their row is known by.
    pub id: TokenId,
    /// What they are called.
    pub name: String,
    /// Who knows them.
    pub issuer: String,
    /// By what.
    pub subject: String,
    /// Their role, where it is one.
    pub role: Option<Role>,
    /// What they could do when they last signed in.
    pub rights: Rights,
    /// The groups that they had then.
    pub groups: Vec<String>,
    /// When they first signed in.
    pub created_at: Timestamp,
    /// When the provider last named their groups.
    pub last_used_at: Option<Timestamp>,
    /// When an operator revoked them.
    pub revoked_at: Option<Timestamp>,
}

/// The people of a namespace, the newest first. `before` is the last one of the page before.
pub async fn list(
    cell: HomeCell<'_>,
    namespace_id: i32,
    before: Option<(Timestamp, TokenId)>,
    limit: u16,
) -> Result<Vec<PersonView>, ReadError> {
    let (at, id) = before.map_or(NEWEST, |(at, id)| (at, *id.as_uuid()));
    let limit = i64::from(limit);
    let client = cell.reader().await?;
    let rows = client
        .query(LIST, &[&namespace_id, &at, &id, &limit])
        .await?;
    Ok(rows.iter().map(view).collect())
}

/// A person of a namespace.
pub async fn find(
    cell: HomeCell<'_>,
    namespace_id: i32,
    id: TokenId,
) -> Result<Option<PersonView>, ReadError> {
    let client = cell.reader().await?;
    let row = client
        .query_opt(FIND, &[&namespace_id, id.as_uuid()])
        .await?;
    Ok(row.as_ref().map(view))
}

/// Keeps a person out of a namespace, whatever their groups, and revokes the tokens that they made there.
/// Returns those that worked until now.
pub async fn revoke(
    cell: HomeCell<'_>,
    namespace_id: i32,
    id: TokenId,
    act: &AuditEntry,
) -> Result<Vec<TokenView>, ReadError> {
    revoke_by(REVOKE, cell, namespace_id, id, act).await
}

/// Lets a person in again, as far as their groups reach. False where they are not revoked.
pub async fn restore(
    cell: HomeCell<'_>,
    namespace_id: i32,
    id: TokenId,
    act: &AuditEntry,
) -> Result<bool, ReadError> {
    let values: [&(dyn ToSql + Sync); 2] = [&namespace_id, id.as_uuid()];
    Ok(audit::execute(cell, RESTORE, &values, act).await? > 0)
}

fn view(row: &Row) -> PersonView {
    let role: Option<&str> = row.get(4);
    let rights: Vec<&str> = row.get(5);
    PersonView {
        id: TokenId::from_uuid(row.get(0)),
        name: row.get(1),
        issuer: row.get(2),
        subject: row.get(3),
        role: role.and_then(|role| role.parse().ok()),
        rights: Rights::of_words(rights),
        groups: row.get(6),
        created_at: row.get(7),
        last_used_at: row.get(8),
        revoked_at: row.get(9),
    }
}
