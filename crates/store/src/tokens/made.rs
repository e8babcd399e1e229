//! Tokens that a token or a person made in its own namespace, directly or through what it made.
//!
//! The maker is revoked first, which waits for what it is just making and lets it make nothing more. Then
//! the rest is revoked in rounds, until a round finds nothing: a token of one round may have made another
//! one while it was revoked.

use deadpool_postgres::Transaction;
use semel_model::TokenId;
use tokio_postgres::types::ToSql;

use super::{REVOKE, TokenView, view};
use crate::audit::{self, AuditEntry};
use crate::cell::{HomeCell, ReadError};

/// The most tokens that an answer lists of those that one token or person made.
pub const MADE_SHOWN_MAX: usize = 100;

/// The most rounds of one revocation. Another round is needed only for a token that was made during the last.
const ROUNDS_MAX: usize = 32;

const LIST: &str = "
    WITH RECURSIVE made AS (
        SELECT id FROM tokens WHERE namespace_id = $1 AND made_by = $2
        UNION
        SELECT t.id FROM tokens t JOIN made m ON t.made_by = m.id WHERE t.namespace_id = $1)
    SELECT id, name, digest, created_at, expires_at, revoked_at, groups, rights,
           revoked_at IS NULL AND expires_at > moment(), role, last_used_at, networks::text[], queues,
           made_by, derived, coalesce(ends_at, expires_at),
           count(*) OVER ()
      FROM tokens
     WHERE id IN (SELECT id FROM made) AND revoked_at IS NULL AND expires_at > moment()
     ORDER BY created_at DESC, id DESC
     LIMIT $3";

const REVOKE_MADE: &str = "
    WITH RECURSIVE made AS (
        SELECT id FROM tokens WHERE namespace_id = $1 AND made_by = $2
        UNION
        SELECT t.id FROM tokens t JOIN made m ON t.made_by = m.id WHERE t.namespace_id = $1)
    UPDATE tokens SET revoked_at = moment(), sealed = NULL, sealed_until = NULL
     WHERE id IN (SELECT id FROM made) AND revoked_at IS NULL AND expires_at > moment()
 RETURNING id, name, digest, created_at, expires_at, revoked_at, groups, rights,
           revoked_at IS NULL AND expires_at > moment(), role, last_used_at, networks::text[], queues,
           made_by, derived, coalesce(ends_at, expires_at)";

pub(crate) const STATEMENTS: &[&str] = &[LIST, REVOKE_MADE];

/// Tokens that one token or person made, and that work.
#[derive(Clone, Debug, Default)]
pub struct MadeTokens {
    /// The newest of them, [`MADE_SHOWN_MAX`] at most.
    pub newest: Vec<TokenView>,
    /// How many there are.
    pub count: u64,
}

/// Lists the working tokens that a token or a person made.
pub async fn list(
    cell: HomeCell<'_>,
    namespace_id: i32,
    maker: TokenId,
) -> Result<MadeTokens, ReadError> {
    let client = cell.reader().await?;
    let limit = i64::try_from(MADE_SHOWN_MAX).unwrap_or(i64::MAX);
    let rows = client
        .query(LIST, &[&namespace_id, maker.as_uuid(), &limit])
        .await?;
    let count: i64 = rows.first().map_or(0, |row| row.get(16));
    let newest: Result<Vec<TokenView>, ReadError> = rows.iter().map(view).collect();
    Ok(MadeTokens {
        newest: newest?,
        count: count.unsigned_abs(),
    })
}

/// Revokes a token and the tokens that it made. Returns those that it made and that worked until now.
pub async fn revoke(
    cell: HomeCell<'_>,
    namespace_id: i32,
    id: TokenId,
    act: &AuditEntry,
) -> Result<Vec<TokenView>, ReadError> {
    revoke_by(REVOKE, cell, namespace_id, id, act).await
}

/// The same for the statement that revokes one token or one person.
pub(crate) async fn revoke_by(
    statement: &str,
    cell: HomeCell<'_>,
    namespace_id: i32,
    id: TokenId,
    act: &AuditEntry,
) -> Result<Vec<TokenView>, ReadError> {
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    let values: [&(dyn ToSql + Sync); 2] = [&namespace_id, id.as_uuid()];
    if tx.execute(statement, &values).await? > 0 {
        audit::append(&tx, act).await?;
    }
    let made = revoke_made(&tx, namespace_id, id, act).await?;
    tx.commit().await?;
    Ok(made)
}

/// Revokes what a token or a person made, who is revoked already in this transaction or before. `act` is
/// that revocation: each of these is recorded as an act of the same actor for the same reason.
async fn revoke_made(
    tx: &Transaction<'_>,
    namespace_id: i32,
    maker: TokenId,
    act: &AuditEntry,
) -> Result<Vec<TokenView>, ReadError> {
    let mut all = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let values: [&(dyn ToSql + Sync); 2] = [&namespace_id, maker.as_uuid()];
        let rows = tx.query(REVOKE_MADE, &values).await?;
        if rows.is_empty() {
            break;
        }
        let round: Result<Vec<TokenView>, ReadError> = rows.iter().map(view).collect();
        let round = round?;
        let acts: Vec<AuditEntry> = round
            .iter()
            .map(|token| {
                let subject = format!("{} {}", token.name, token.id);
                act.followed_by(namespace_id, "token.revoke", &subject)
            })
            .collect();
        audit::append_all(tx, &acts).await?;
        all.extend(round);
    }
    Ok(all)
}
