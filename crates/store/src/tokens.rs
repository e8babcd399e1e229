//! The `tokens` table: who may use the API.

use jiff::Timestamp;
use semel_model::{NamespaceName, Span};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::audit::{self, AuditEntry};
use crate::cell::{HomeCell, ReadError};
use crate::flows;

/// Who makes tokens, for the record.
const MAKER: &str = "operator";

const INSERT: &str = "
    INSERT INTO tokens (id, namespace_id, name, digest, expires_at, groups)
    VALUES ($1, $2, $3, $4, moment() + make_interval(secs => $5), $6)";

const FIND: &str = "
    SELECT t.namespace_id, n.name, t.name, t.digest, t.expires_at, t.groups
      FROM tokens t
      JOIN namespaces n ON n.id = t.namespace_id
     WHERE t.id = $1 AND t.revoked_at IS NULL AND t.expires_at > moment()";

const COUNT: &str =
    "SELECT count(*) FROM tokens WHERE revoked_at IS NULL AND expires_at > moment()";

pub(crate) const STATEMENTS: &[&str] = &[INSERT, FIND, COUNT];

/// A token that opens the API.
#[derive(Clone, Debug)]
pub struct TokenRow {
    /// The one namespace that it opens, short.
    pub namespace_id: i32,
    /// That namespace.
    pub namespace: String,
    /// What its owner calls it.
    pub name: String,
    /// SHA-256 of the secret part.
    pub digest: Vec<u8>,
    /// When it stops working.
    pub expires_at: Timestamp,
    /// The groups that its owner belongs to.
    pub groups: Vec<String>,
}

/// Stores a token's digest; creates its namespace unless it exists. The creation is recorded in the
/// same commit, without a name: its maker has access to the database itself, and no identity here.
pub async fn insert(
    cell: HomeCell<'_>,
    id: Uuid,
    namespace: &NamespaceName,
    name: &str,
    digest: &[u8],
    lifetime: Span,
    groups: &[String],
) -> Result<(), ReadError> {
    let namespace_id = flows::ensure_namespace(cell, namespace).await?;
    let secs = lifetime.as_millis() as f64 / 1e3;
    let act = AuditEntry::new(namespace_id, MAKER, "token.create", name);
    let values: [&(dyn ToSql + Sync); 6] = [&id, &namespace_id, &name, &digest, &secs, &groups];
    audit::execute(cell, INSERT, &values, &act).await?;
    Ok(())
}

/// Looks a token up that works now.
pub async fn find(cell: HomeCell<'_>, id: Uuid) -> Result<Option<TokenRow>, ReadError> {
    let client = cell.reader().await?;
    let row = client.query_opt(FIND, &[&id]).await?;
    Ok(row.map(|row| TokenRow {
        namespace_id: row.get(0),
        namespace: row.get(1),
        name: row.get(2),
        digest: row.get(3),
        expires_at: row.get(4),
        groups: row.get(5),
    }))
}

/// How many tokens work now.
pub async fn count(cell: HomeCell<'_>) -> Result<i64, ReadError> {
    Ok(cell.reader().await?.query_one(COUNT, &[]).await?.get(0))
}
