//! The `resources` table: which large outputs and uploads are still needed. Their bytes are elsewhere.
//!
//! A row is written after its bytes are kept and removed after they were set aside, so that a row
//! never stands for bytes that are gone.

use jiff::Timestamp;
use semel_model::{Resource, ResourceRef, RunId, Span};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::cell::{EveryCell, ReadError, SlotCell};
use crate::listed::NEWEST;

// Crosses slots (V8): the table has no slot, though its rows are named by a digest that has one. Before
// a second cell, the slot of the digest stands first in the primary key.

const INSERT: &str = "
    INSERT INTO resources (namespace_id, digest, bytes, media_type, name, run_id, step, expires_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, moment() + make_interval(secs => $8))
        ON CONFLICT (namespace_id, digest) DO UPDATE
       SET expires_at = greatest(resources.expires_at, EXCLUDED.expires_at),
           name = coalesce(resources.name, EXCLUDED.name),
           run_id = CASE WHEN resources.run_id = EXCLUDED.run_id THEN resources.run_id END,
           step = CASE WHEN resources.run_id = EXCLUDED.run_id THEN resources.step END";

const FIND: &str = "
    SELECT digest, bytes, media_type, name, run_id, step, created_at, expires_at
      FROM resources
     WHERE namespace_id = $1 AND digest = $2 AND expires_at > moment()";

const LIST: &str = "
    SELECT digest, bytes, media_type, name, run_id, step, created_at, expires_at
      FROM resources
     WHERE namespace_id = $1 AND expires_at > moment()
       AND (created_at, digest) < ($2, $3)
     ORDER BY created_at DESC, digest DESC
     LIMIT $4";

const LIST_EXPIRED: &str = "
    SELECT namespace_id, digest, moment()
      FROM resources
     WHERE expires_at <= (SELECT moment())
     ORDER BY expires_at
     LIMIT $1";

const REMOVE: &str = "
    DELETE FROM resources
     WHERE namespace_id = $1 AND digest = $2 AND expires_at <= moment()";

const IS_NEEDED: &str = "
    SELECT EXISTS (SELECT 1 FROM resources
                    WHERE namespace_id = $1 AND digest = $2 AND expires_at > moment())";

const LIST_STRAYS: &str = "
    SELECT t.namespace_id, t.digest
      FROM unnest($1::int4[], $2::bytea[]) AS t (namespace_id, digest)
     WHERE NOT EXISTS (SELECT 1 FROM resources r
                        WHERE r.namespace_id = t.namespace_id AND r.digest = t.digest)";

pub(crate) const STATEMENTS: &[&str] = &[
    INSERT,
    FIND,
    LIST,
    LIST_EXPIRED,
    REMOVE,
    IS_NEEDED,
    LIST_STRAYS,
];

/// How many expired resources are looked at in one pass.
pub const EXPIRE_MAX: i64 = 100;

/// Who keeps a resource, under which name and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Keeping<'a> {
    /// The namespace that owns it.
    pub namespace_id: i32,
    /// The run and its step; absent where it was uploaded.
    pub by: Option<(RunId, &'a str)>,
    /// What people call it.
    pub name: Option<&'a str>,
    /// How long it is kept from now.
    pub keep: Span,
}

/// A resource that is still needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceRow {
    /// Its name, size and kind.
    pub resource: Resource,
    /// What people call it.
    pub name: Option<String>,
    /// The run that kept it first; absent where it was uploaded.
    pub run: Option<RunId>,
    /// The step that kept it first.
    pub step: Option<String>,
    /// When.
    pub created_at: Timestamp,
    /// When it may be removed.
    pub expires_at: Timestamp,
}

/// Records a resource. Of two expiries the later holds.
pub async fn insert(
    cell: SlotCell<'_>,
    keeping: &Keeping<'_>,
    resource: &Resource,
) -> Result<(), ReadError> {
    let digest: &[u8] = resource.resource.digest();
    let bytes = i64::try_from(resource.bytes).unwrap_or(i64::MAX);
    let secs = keeping.keep.as_secs_f64();
    let (run, step) = keeping.by.unzip();
    let run = run.map(|run| *run.as_uuid());
    let client = cell.reader().await?;
    client
        .execute(
            INSERT,
            &[
                &keeping.namespace_id,
                &digest,
                &bytes,
                &resource.media_type,
                &keeping.name,
                &run,
                &step,
                &secs,
            ],
        )
        .await?;
    Ok(())
}

/// A resource, unless its time is over.
pub async fn find(
    cell: SlotCell<'_>,
    namespace_id: i32,
    resource: ResourceRef,
) -> Result<Option<ResourceRow>, ReadError> {
    let digest: &[u8] = resource.digest();
    let client = cell.reader().await?;
    let row = client.query_opt(FIND, &[&namespace_id, &digest]).await?;
    Ok(row.as_ref().and_then(to_row))
}

/// The resources of a namespace, newest first. A page begins behind an instant and the first bytes
/// of a digest.
pub async fn list(
    cell: EveryCell<'_>,
    namespace_id: i32,
    before: Option<(Timestamp, Uuid)>,
    limit: u16,
) -> Result<Vec<ResourceRow>, ReadError> {
    let (at, start) = before.unwrap_or(NEWEST);
    let digest = start.as_bytes().as_slice();
    let client = cell.reader().await?;
    let rows = client
        .query(LIST, &[&namespace_id, &at, &digest, &i64::from(limit)])
        .await?;
    Ok(rows.iter().filter_map(to_row).collect())
}

/// Resources whose time is over, and what time it is.
pub async fn list_expired(
    cell: EveryCell<'_>,
) -> Result<Vec<(i32, ResourceRef, Timestamp)>, ReadError> {
    let client = cell.reader().await?;
    let rows = client.query(LIST_EXPIRED, &[&EXPIRE_MAX]).await?;
    let read = |row: &Row| Some((row.get(0), to_ref(row.get(1))?, row.get(2)));
    Ok(rows.iter().filter_map(read).collect())
}

/// Forgets a resource whose time is over; false where it is not over any more.
pub async fn remove_expired(
    cell: SlotCell<'_>,
    namespace_id: i32,
    resource: ResourceRef,
) -> Result<bool, ReadError> {
    let digest: &[u8] = resource.digest();
    let client = cell.reader().await?;
    Ok(client.execute(REMOVE, &[&namespace_id, &digest]).await? > 0)
}

/// Whether a resource is still needed.
pub async fn is_needed(
    cell: SlotCell<'_>,
    namespace_id: i32,
    resource: ResourceRef,
) -> Result<bool, ReadError> {
    let digest: &[u8] = resource.digest();
    let client = cell.reader().await?;
    let row = client
        .query_one(IS_NEEDED, &[&namespace_id, &digest])
        .await?;
    Ok(row.get(0))
}

/// Those that have no row at all, expired ones included.
pub async fn list_strays(
    cell: EveryCell<'_>,
    kept: &[(i32, ResourceRef)],
) -> Result<Vec<(i32, ResourceRef)>, ReadError> {
    let namespaces: Vec<i32> = kept.iter().map(|(namespace_id, _)| *namespace_id).collect();
    let digests: Vec<&[u8]> = kept
        .iter()
        .map(|(_, resource)| resource.digest().as_slice())
        .collect();
    let client = cell.reader().await?;
    let rows = client.query(LIST_STRAYS, &[&namespaces, &digests]).await?;
    let read = |row: &Row| Some((row.get(0), to_ref(row.get(1))?));
    Ok(rows.iter().filter_map(read).collect())
}

pub(crate) fn to_ref(digest: &[u8]) -> Option<ResourceRef> {
    digest.try_into().ok().map(ResourceRef::from_digest)
}

fn to_row(row: &Row) -> Option<ResourceRow> {
    let bytes: i64 = row.get(1);
    Some(ResourceRow {
        resource: Resource {
            resource: to_ref(row.get(0))?,
            bytes: bytes.unsigned_abs(),
            media_type: row.get(2),
        },
        name: row.get(3),
        run: row.get::<_, Option<Uuid>>(4).map(RunId::from_uuid),
        step: row.get(5),
        created_at: row.get(6),
        expires_at: row.get(7),
    })
}
