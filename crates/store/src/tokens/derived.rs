//! Tokens whose secret may have been derived from the installation's secret key.
//!
//! Earlier binaries made them. Whoever has that key can compute them, also after the key was changed, so
//! they are listed and revoked as a group. The mark is the column's default: a binary that draws secrets
//! at random says so, and an earlier one says nothing.

use semel_model::TokenId;
use tokio_postgres::types::ToSql;

use super::{TokenView, token_columns, view};
use crate::audit::{self, AuditEntry};
use crate::cell::{HomeCell, ReadError};

const LIST: &str = "
    SELECT n.name, t.id, t.name, count(*) OVER ()
      FROM tokens t
      JOIN namespaces n ON n.id = t.namespace_id
     WHERE t.derived AND t.kind = 'api' AND t.revoked_at IS NULL AND t.expires_at > moment()
     ORDER BY t.created_at, t.id
     LIMIT $1";

/// In one namespace, or in all of them.
const REVOKE_DERIVED: &str = concat!(
    "
    UPDATE tokens SET revoked_at = moment(), sealed = NULL, sealed_until = NULL
     WHERE derived AND kind = 'api' AND revoked_at IS NULL AND expires_at > moment()
       AND ($1::integer IS NULL OR namespace_id = $1) AND id <> $2
 RETURNING ",
    token_columns!(),
    ",
           namespace_id"
);

pub(crate) const STATEMENTS: &[&str] = &[LIST, REVOKE_DERIVED];

/// A token that may have been derived, and works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DerivedToken {
    /// Its namespace.
    pub namespace: String,
    /// The public part of the token.
    pub id: TokenId,
    /// Its owner's name for it.
    pub name: String,
}

/// The oldest tokens of all namespaces that may have been derived and work, and how many there are.
pub async fn list(cell: HomeCell<'_>, limit: i64) -> Result<(Vec<DerivedToken>, u64), ReadError> {
    let client = cell.reader().await?;
    let rows = client.query(LIST, &[&limit]).await?;
    let count: i64 = rows.first().map_or(0, |row| row.get(3));
    let found = rows.iter().map(|row| DerivedToken {
        namespace: row.get(0),
        id: TokenId::from_uuid(row.get(1)),
        name: row.get(2),
    });
    Ok((found.collect(), count.unsigned_abs()))
}

/// Revokes the tokens that may have been derived, of a namespace or of all, except the one that asks.
/// Each is an act of its own namespace, by the actor and for the reason of `act`.
pub async fn revoke(
    cell: HomeCell<'_>,
    namespace_id: Option<i32>,
    own: TokenId,
    act: &AuditEntry,
) -> Result<Vec<TokenView>, ReadError> {
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    let values: [&(dyn ToSql + Sync); 2] = [&namespace_id, own.as_uuid()];
    let rows = tx.query(REVOKE_DERIVED, &values).await?;
    let revoked: Result<Vec<TokenView>, ReadError> = rows.iter().map(view).collect();
    let revoked = revoked?;
    let acts: Vec<AuditEntry> = rows
        .iter()
        .zip(&revoked)
        .map(|(row, token)| {
            let subject = format!("{} {}", token.name, token.id);
            act.followed_by(row.get("namespace_id"), "token.revoke", &subject)
        })
        .collect();
    audit::append_all(&tx, &acts).await?;
    tx.commit().await?;
    Ok(revoked)
}
