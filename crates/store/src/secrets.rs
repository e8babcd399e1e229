//! The `secrets` and `data_keys` tables. Their content is encrypted before it comes here.

use jiff::Timestamp;
use semel_model::Span;
use tokio_postgres::types::ToSql;

use crate::audit::{self, AuditEntry};
use crate::cell::{HomeCell, ReadError};

const MAKE_KEY: &str = "
    INSERT INTO data_keys (namespace_id, number, wrapped, wrapped_by)
    VALUES ($1, $2, $3, $4) ON CONFLICT (namespace_id, number) DO NOTHING";

const REWRAP: &str = "
    UPDATE data_keys SET wrapped = $3, wrapped_by = $4 WHERE namespace_id = $1 AND number = $2";

const KEYS: &str = "
    SELECT namespace_id, number, wrapped, wrapped_by FROM data_keys
     WHERE $1::integer IS NULL OR namespace_id = $1
     ORDER BY namespace_id, number";

/// Every change of secrets raises the version, and so waits for the one before it.
const ALONE: &str = "SELECT 1 FROM config_version FOR UPDATE";

const NEXT_VERSION: &str = "
    SELECT coalesce(max(version), 0) + 1 FROM secrets WHERE namespace_id = $1 AND name = $2";

/// A version that another process has taken meanwhile is not taken again. Where no hosts are given, it
/// keeps those of the version before it.
const SET: &str = "
    WITH bumped AS (UPDATE config_version SET version = version + 1),
         former AS (
             UPDATE secrets SET retires_at = moment() + make_interval(secs => $6)
              WHERE namespace_id = $1 AND name = $2 AND retires_at IS NULL AND version < $3)
    INSERT INTO secrets (namespace_id, name, version, data_key, sealed, hosts)
    VALUES ($1, $2, $3, $4, $5,
            coalesce($7, (SELECT hosts FROM secrets WHERE namespace_id = $1 AND name = $2
                           ORDER BY version DESC LIMIT 1), '{}'))
        ON CONFLICT (namespace_id, name, version) DO NOTHING";

const BIND: &str = "
    WITH bumped AS (UPDATE config_version SET version = version + 1)
    UPDATE secrets SET hosts = $3 WHERE namespace_id = $1 AND name = $2 AND hosts <> $3";

/// An overlap is never made longer.
const RETIRE: &str = "
    WITH bumped AS (UPDATE config_version SET version = version + 1)
    UPDATE secrets SET retires_at = moment() + make_interval(secs => $3)
     WHERE namespace_id = $1 AND name = $2 AND retires_at > moment() + make_interval(secs => $3)";

const RESEAL: &str = "
    WITH bumped AS (UPDATE config_version SET version = version + 1)
    UPDATE secrets SET data_key = $4, sealed = $5
     WHERE namespace_id = $1 AND name = $2 AND version = $3";

const DELETE: &str = "
    WITH bumped AS (UPDATE config_version SET version = version + 1)
    DELETE FROM secrets WHERE namespace_id = $1 AND name = $2";

const USABLE: &str = "
    SELECT namespace_id, name, version, data_key, sealed, created_at, retires_at, hosts
      FROM secrets
     WHERE ($1::integer IS NULL OR namespace_id = $1)
       AND (retires_at IS NULL OR retires_at > moment())
     ORDER BY namespace_id, name, version DESC";

pub(crate) const STATEMENTS: &[&str] = &[
    MAKE_KEY,
    REWRAP,
    KEYS,
    NEXT_VERSION,
    ALONE,
    SET,
    BIND,
    RETIRE,
    RESEAL,
    DELETE,
    USABLE,
];

/// A key that encrypts secrets, itself encrypted.
#[derive(Clone, Debug)]
pub struct DataKeyRow {
    /// The namespace whose secrets it encrypts.
    pub namespace_id: i32,
    /// Its number.
    pub number: i32,
    /// Nonce and encrypted key.
    pub wrapped: Vec<u8>,
    /// Which master key encrypted it.
    pub wrapped_by: String,
}

/// One version of a secret, encrypted.
#[derive(Clone, Debug)]
pub struct SecretRow {
    /// The namespace that owns it.
    pub namespace_id: i32,
    /// What connections and triggers call it.
    pub name: String,
    /// 1, 2, 3 …
    pub version: i32,
    /// The number of the key that encrypted it.
    pub data_key: i32,
    /// Nonce and encrypted text.
    pub sealed: Vec<u8>,
    /// When it was set.
    pub created_at: Timestamp,
    /// Until when a version that was followed by another still verifies deliveries.
    pub retires_at: Option<Timestamp>,
    /// The hosts that it may be sent to; empty means any host.
    pub hosts: Vec<String>,
}

/// Changes secrets while no one else does: a statement sees what another one committed before it, and so
/// keeps the hosts that it set.
async fn execute_alone(
    cell: HomeCell<'_>,
    text: &str,
    values: &[&(dyn ToSql + Sync)],
    act: Option<&AuditEntry>,
) -> Result<bool, ReadError> {
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    tx.execute(ALONE, &[]).await?;
    let changed = tx.execute(text, values).await? > 0;
    if let Some(act) = act.filter(|_| changed) {
        audit::append(&tx, act).await?;
    }
    tx.commit().await?;
    Ok(changed)
}

/// Keeps a data key, unless there is one of that number. An act that begins with it is recorded in
/// the same commit.
pub async fn make_key_by(
    cell: HomeCell<'_>,
    key: &DataKeyRow,
    act: &AuditEntry,
) -> Result<bool, ReadError> {
    let DataKeyRow {
        namespace_id,
        number,
        wrapped,
        wrapped_by,
    } = key;
    let values: [&(dyn ToSql + Sync); 4] = [namespace_id, number, wrapped, wrapped_by];
    Ok(audit::execute(cell, MAKE_KEY, &values, act).await? > 0)
}

/// Keeps a data key, unless there is one of that number.
pub async fn make_key(cell: HomeCell<'_>, key: &DataKeyRow) -> Result<bool, ReadError> {
    let client = cell.reader().await?;
    let DataKeyRow {
        namespace_id,
        number,
        wrapped,
        wrapped_by,
    } = key;
    let made = client
        .execute(MAKE_KEY, &[namespace_id, number, wrapped, wrapped_by])
        .await?;
    Ok(made > 0)
}

/// Keeps a data key that was sealed with another outer key.
pub async fn rewrap(cell: HomeCell<'_>, key: &DataKeyRow) -> Result<(), ReadError> {
    let client = cell.reader().await?;
    let DataKeyRow {
        namespace_id,
        number,
        wrapped,
        wrapped_by,
    } = key;
    client
        .execute(REWRAP, &[namespace_id, number, wrapped, wrapped_by])
        .await?;
    Ok(())
}

/// The data keys of a namespace, or of all, in order.
pub async fn list_keys(
    cell: HomeCell<'_>,
    namespace_id: Option<i32>,
) -> Result<Vec<DataKeyRow>, ReadError> {
    let client = cell.reader().await?;
    let rows = client.query(KEYS, &[&namespace_id]).await?;
    Ok(rows
        .iter()
        .map(|row| DataKeyRow {
            namespace_id: row.get(0),
            number: row.get(1),
            wrapped: row.get(2),
            wrapped_by: row.get(3),
        })
        .collect())
}

/// The version that the next setting of a secret would have.
pub async fn next_version(
    cell: HomeCell<'_>,
    namespace_id: i32,
    name: &str,
) -> Result<i32, ReadError> {
    let client = cell.reader().await?;
    let row = client
        .query_one(NEXT_VERSION, &[&namespace_id, &name])
        .await?;
    Ok(row.get(0))
}

/// Keeps a version of a secret; the one before it remains valid for verification for `overlap`.
/// False if another request has set that version meanwhile. Where no hosts are given, it keeps those of
/// the version before it. The act is recorded in the same commit.
pub async fn set(
    cell: HomeCell<'_>,
    secret: &SecretRow,
    hosts: Option<&[String]>,
    overlap: Span,
    act: &AuditEntry,
) -> Result<bool, ReadError> {
    let secs = overlap.as_secs_f64();
    let SecretRow {
        namespace_id,
        name,
        version,
        data_key,
        sealed,
        ..
    } = secret;
    let values: [&(dyn ToSql + Sync); 7] =
        [namespace_id, name, version, data_key, sealed, &secs, &hosts];
    execute_alone(cell, SET, &values, Some(act)).await
}

/// Binds a secret to hosts; false where it was bound to them already, or there is none. The act is
/// recorded in the same commit.
pub async fn bind(
    cell: HomeCell<'_>,
    namespace_id: i32,
    name: &str,
    hosts: &[String],
    act: &AuditEntry,
) -> Result<bool, ReadError> {
    let values: [&(dyn ToSql + Sync); 3] = [&namespace_id, &name, &hosts];
    execute_alone(cell, BIND, &values, Some(act)).await
}

/// Ends the overlap of former versions sooner; false where there is none that lasts longer. The act is recorded in
/// the same commit.
pub async fn retire(
    cell: HomeCell<'_>,
    namespace_id: i32,
    name: &str,
    overlap: Span,
    act: &AuditEntry,
) -> Result<bool, ReadError> {
    let secs = overlap.as_secs_f64();
    let values: [&(dyn ToSql + Sync); 3] = [&namespace_id, &name, &secs];
    execute_alone(cell, RETIRE, &values, Some(act)).await
}

/// Keeps a version of a secret that was sealed anew.
pub async fn reseal(cell: HomeCell<'_>, secret: &SecretRow) -> Result<(), ReadError> {
    let SecretRow {
        namespace_id,
        name,
        version,
        data_key,
        sealed,
        ..
    } = secret;
    let values: [&(dyn ToSql + Sync); 5] = [namespace_id, name, version, data_key, sealed];
    execute_alone(cell, RESEAL, &values, None).await?;
    Ok(())
}

/// Removes every version of a secret; false if there is none. The act is recorded in the same
/// commit.
pub async fn delete(
    cell: HomeCell<'_>,
    namespace_id: i32,
    name: &str,
    act: &AuditEntry,
) -> Result<bool, ReadError> {
    execute_alone(cell, DELETE, &[&namespace_id, &name], Some(act)).await
}

/// The versions that are in use, of a namespace or of all; the latest of each name first.
pub async fn list(
    cell: HomeCell<'_>,
    namespace_id: Option<i32>,
) -> Result<Vec<SecretRow>, ReadError> {
    let client = cell.reader().await?;
    let rows = client.query(USABLE, &[&namespace_id]).await?;
    Ok(rows
        .iter()
        .map(|row| SecretRow {
            namespace_id: row.get(0),
            name: row.get(1),
            version: row.get(2),
            data_key: row.get(3),
            sealed: row.get(4),
            created_at: row.get(5),
            retires_at: row.get(6),
            hosts: row.get(7),
        })
        .collect())
}
