//! The `connections` table: destinations as their owners describe them.

use deadpool_postgres::Transaction;
use jiff::Timestamp;
use semel_model::Connection;
use semel_model::audit_chain::digest_of;
use tokio_postgres::Row;
use tokio_postgres::types::{Json, ToSql};

use crate::audit::{self, AuditEntry};
use crate::cell::{HomeCell, ReadError};

const PUT: &str = "
    WITH bumped AS (UPDATE config_version SET version = version + 1)
    INSERT INTO connections (namespace_id, name, connection) VALUES ($1, $2, $3)
        ON CONFLICT (namespace_id, name) DO UPDATE
       SET connection = EXCLUDED.connection, version = connections.version + 1,
           changed_at = moment()
 RETURNING version";

const MAKE: &str = "
    WITH bumped AS (UPDATE config_version SET version = version + 1)
    INSERT INTO connections (namespace_id, name, connection) VALUES ($1, $2, $3)
        ON CONFLICT (namespace_id, name) DO NOTHING";

const DELETE: &str = "
    WITH bumped AS (UPDATE config_version SET version = version + 1)
    DELETE FROM connections WHERE namespace_id = $1 AND name = $2";

/// Locks the configuration until the transaction ends: every change of it updates this row.
const LOCK: &str = "SELECT version FROM config_version FOR UPDATE";

const KEPT: &str = "SELECT connection FROM connections WHERE namespace_id = $1 AND name = $2";

const LIST: &str = "
    SELECT namespace_id, name, version, connection, created_at, changed_at
      FROM connections
     WHERE ($1::integer IS NULL OR namespace_id = $1) AND ($2::text IS NULL OR name = $2)
     ORDER BY namespace_id, name";

pub(crate) const STATEMENTS: &[&str] = &[PUT, MAKE, DELETE, LOCK, KEPT, LIST];

/// A connection, as it is kept.
#[derive(Clone, Debug)]
pub struct ConnectionRow {
    /// Whose it is, short.
    pub namespace_id: i32,
    /// What flows call it.
    pub name: String,
    /// Grows with every change.
    pub version: i64,
    /// What its owner says of it.
    pub connection: Connection,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was changed last.
    pub changed_at: Timestamp,
}

/// Keeps a connection, in place of an earlier one of that name; says its version. Here and below,
/// the act is recorded in the same commit.
pub async fn put(
    cell: HomeCell<'_>,
    namespace_id: i32,
    name: &str,
    connection: &Connection,
    act: &AuditEntry,
) -> Result<i64, ReadError> {
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    let old = lock_digest(&tx, namespace_id, name).await?;
    let act = act.clone().changing(old, digest(connection));
    let connection = Json(connection);
    let values: [&(dyn ToSql + Sync); 3] = [&namespace_id, &name, &connection];
    let row = tx.query_one(PUT, &values).await?;
    audit::append(&tx, &act).await?;
    tx.commit().await?;
    Ok(row.get(0))
}

/// Locks the configuration, and reads the digest of a connection; none if there is no such connection.
async fn lock_digest(
    tx: &Transaction<'_>,
    namespace_id: i32,
    name: &str,
) -> Result<Option<[u8; 32]>, ReadError> {
    tx.query_opt(LOCK, &[]).await?;
    let kept = tx.query_opt(KEPT, &[&namespace_id, &name]).await?;
    let kept = kept.and_then(|row| row.try_get::<_, Json<Connection>>(0).ok());
    Ok(kept.and_then(|kept| digest(&kept.0)))
}

/// The digest of what its owner says of a connection: a secret is in it by its name alone.
fn digest(connection: &Connection) -> Option<[u8; 32]> {
    let text = serde_json::to_vec(connection).ok()?;
    Some(digest_of(&text))
}

/// Keeps a connection, unless there is one of that name.
pub async fn make(
    cell: HomeCell<'_>,
    namespace_id: i32,
    name: &str,
    connection: &Connection,
    act: &AuditEntry,
) -> Result<bool, ReadError> {
    let act = act.clone().changing(None, digest(connection));
    let connection = Json(connection);
    let values: [&(dyn ToSql + Sync); 3] = [&namespace_id, &name, &connection];
    Ok(audit::execute(cell, MAKE, &values, &act).await? > 0)
}

/// Removes a connection; false when there is none of that name.
pub async fn delete(
    cell: HomeCell<'_>,
    namespace_id: i32,
    name: &str,
    act: &AuditEntry,
) -> Result<bool, ReadError> {
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    let old = lock_digest(&tx, namespace_id, name).await?;
    let deleted = tx.execute(DELETE, &[&namespace_id, &name]).await?;
    if deleted > 0 {
        audit::append(&tx, &act.clone().changing(old, None)).await?;
    }
    tx.commit().await?;
    Ok(deleted > 0)
}

/// The connections of a namespace, sorted by name.
pub async fn list(cell: HomeCell<'_>, namespace_id: i32) -> Result<Vec<ConnectionRow>, ReadError> {
    read(cell, Some(namespace_id), None).await
}

/// The connection of that name.
pub async fn find(
    cell: HomeCell<'_>,
    namespace_id: i32,
    name: &str,
) -> Result<Option<ConnectionRow>, ReadError> {
    Ok(read(cell, Some(namespace_id), Some(name)).await?.pop())
}

/// Every connection of the installation.
pub async fn list_all(cell: HomeCell<'_>) -> Result<Vec<ConnectionRow>, ReadError> {
    read(cell, None, None).await
}

async fn read(
    cell: HomeCell<'_>,
    namespace_id: Option<i32>,
    name: Option<&str>,
) -> Result<Vec<ConnectionRow>, ReadError> {
    let client = cell.reader().await?;
    let rows = client.query(LIST, &[&namespace_id, &name]).await?;
    // One that a newer build described in words that this one does not know is passed over.
    Ok(rows.iter().filter_map(to_row).collect())
}

fn to_row(row: &Row) -> Option<ConnectionRow> {
    let Json(connection) = row.try_get::<_, Json<Connection>>(3).ok()?;
    Some(ConnectionRow {
        namespace_id: row.get(0),
        name: row.get(1),
        version: row.get(2),
        connection,
        created_at: row.get(4),
        changed_at: row.get(5),
    })
}
