//! Tokens that a repeat of the request that made them is shown again.
//!
//! A token's secret is random, so a repeat finds it only while it is kept, encrypted with the master key:
//! for as long as an answer may be on its way. Each showing is an act, recorded before the token is shown.

use semel_model::TokenId;
use tokio_postgres::types::ToSql;

use crate::audit::{self, AuditEntry};
use crate::cell::{HomeCell, ReadError};

/// Locks the token and its maker: a revocation of either comes before, and nothing is shown, or waits.
const SHOW: &str = "
    SELECT t.sealed
      FROM tokens t
      JOIN tokens m ON m.id = t.made_by
     WHERE t.namespace_id = $1 AND t.id = $2 AND t.made_by = $3 AND t.sealed_until > moment()
       AND t.revoked_at IS NULL AND t.expires_at > moment()
       AND m.revoked_at IS NULL AND m.expires_at > moment()
       FOR SHARE";

const FORGET: &str = "
    UPDATE tokens SET sealed = NULL, sealed_until = NULL
     WHERE id IN (SELECT id FROM tokens WHERE sealed_until < (SELECT moment())
                   ORDER BY sealed_until LIMIT $1)";

pub(crate) const STATEMENTS: &[&str] = &[SHOW, FORGET];

/// The encrypted token for the one who made it, with the record of the showing; none where the time for
/// repeats is over, or token or maker no longer work.
pub async fn show(
    cell: HomeCell<'_>,
    namespace_id: i32,
    id: TokenId,
    maker: TokenId,
    act: &AuditEntry,
) -> Result<Option<Vec<u8>>, ReadError> {
    let values: [&(dyn ToSql + Sync); 3] = [&namespace_id, id.as_uuid(), maker.as_uuid()];
    let row = audit::query_opt(cell, SHOW, &values, act).await?;
    Ok(row.map(|row| row.get(0)))
}

/// Removes encrypted tokens whose time for repeats is over.
pub(crate) async fn forget(cell: HomeCell<'_>, limit: i64) -> Result<u64, ReadError> {
    let client = cell.reader().await?;
    Ok(client.execute(FORGET, &[&limit]).await?)
}
