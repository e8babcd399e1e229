//! The `archives` and `archived_runs` tables: which files hold runs that were deleted here, and which file
//! holds which run.
//!
//! ```text
//! (reserved) writing ──▶ kept ──▶ removing ──▶ (no row)
//!               └────────────────────▲
//! ```
//!
//! The row comes before the file and goes after it, so that no file is ever left that nothing knows: one
//! that a crash left in `writing` is removed an hour later, and its runs are still here. The commit that
//! deletes runs makes their file `kept`. Where runs in a file are erased, a second file takes its place in
//! one commit, and the first is removed.

use jiff::Timestamp;
use semel_model::{ClaimId, RunId, Span};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::cell::{EveryCell, ReadError, SlotCell};

const RESERVE: &str = "INSERT INTO archives (object) VALUES ($1) RETURNING id";

const KEEP: &str = "
    UPDATE archives
       SET state = 'kept', sha256 = $2, bytes = $3, newest_at = $4, written_at = moment(), changed_at = moment()
     WHERE id = $1 AND state = 'writing'";

const ADD_RUNS: &str = "
    INSERT INTO archived_runs (run_id, archive_id, namespace_id, claim_id, sha256)
    SELECT t.run_id, $1, t.namespace_id, t.claim_id, d.sha256
      FROM unnest($2::uuid[], $3::int4[], $4::uuid[]) AS t (run_id, namespace_id, claim_id)
      JOIN unnest($5::uuid[], $6::bytea[]) AS d (run_id, sha256) ON d.run_id = t.run_id";

const CHANGE_RUNS: &str = "
    UPDATE archived_runs r SET sha256 = t.sha256
      FROM unnest($2::uuid[], $3::bytea[]) AS t (run_id, sha256)
     WHERE r.run_id = t.run_id AND r.archive_id = $1 AND r.sha256 <> t.sha256";

/// The latest file that has a run.
const FIND: &str = "
    SELECT a.id, a.object, a.bytes, a.sha256, a.written_at, r.claim_id, r.sha256
      FROM archived_runs r
      JOIN archives a ON a.id = r.archive_id
     WHERE r.run_id = $1 AND r.namespace_id = $2
     ORDER BY r.archive_id DESC
     LIMIT 1";

const GET: &str = "
    SELECT id, object, bytes, sha256, written_at FROM archives WHERE id = $1 AND state = 'kept'";

const OF_KEY: &str = "
    SELECT archive_id, run_id FROM archived_runs
     WHERE run_id BETWEEN $1 AND $2 AND claim_id = $3
     ORDER BY archive_id, run_id";

const TAKE_PLACE: &str = "
    UPDATE archives SET object = $3, sha256 = $4, bytes = $5
     WHERE id = $1 AND object = $2 AND state = 'kept'";

const TAKE_OLD_NAME: &str = "
    UPDATE archives SET state = 'removing', object = $2, changed_at = moment()
     WHERE id = $1 AND state = 'writing'";

const DISCARD: &str = "
    UPDATE archives SET state = 'removing', changed_at = moment() WHERE id = $1 AND state = 'writing'";

/// Those that a crash left, too.
const TAKE_UNNEEDED: &str = "
    WITH old AS (
        SELECT id FROM archives
         WHERE state <> 'kept'
           AND (state = 'removing' OR changed_at < (SELECT moment()) - make_interval(secs => $1))
         ORDER BY changed_at
         LIMIT $2)
    UPDATE archives a SET state = 'removing'
      FROM old
     WHERE a.id = old.id AND a.state <> 'kept'
 RETURNING a.id, a.object";

/// It is looked at again after the others.
const PUT_OFF: &str =
    "UPDATE archives SET changed_at = moment() WHERE id = $1 AND state = 'removing'";

const HAS_KEPT: &str = "SELECT EXISTS (SELECT FROM archives WHERE state = 'kept')";

const FORGET: &str = "DELETE FROM archives WHERE id = $1 AND state = 'removing'";

/// Files whose time is over, with what led to them.
const EXPIRE: &str = "/* commits alone: expire archives */
    WITH old AS MATERIALIZED (
        SELECT id FROM archives
         WHERE state = 'kept' AND newest_at < (SELECT moment()) - make_interval(secs => $1)
         ORDER BY newest_at
         LIMIT $2
           FOR UPDATE SKIP LOCKED),
    runs AS (DELETE FROM archived_runs r USING old WHERE r.archive_id = old.id),
    files AS (
        UPDATE archives a SET state = 'removing', changed_at = moment()
          FROM old
         WHERE a.id = old.id)
    SELECT count(*) FROM old";

pub(crate) const STATEMENTS: &[&str] = &[
    RESERVE,
    KEEP,
    ADD_RUNS,
    CHANGE_RUNS,
    FIND,
    GET,
    OF_KEY,
    TAKE_PLACE,
    TAKE_OLD_NAME,
    DISCARD,
    TAKE_UNNEEDED,
    PUT_OFF,
    HAS_KEPT,
    FORGET,
    EXPIRE,
];

/// After how long a file that is still being written counts as left by a crash.
const WRITING_MAX: Span = Span::from_const_secs(3_600);

/// How many files one look takes for removal.
const UNNEEDED_MAX: i64 = 100;

/// How many files one transaction lets expire.
const EXPIRE_MAX: i64 = 20;

/// A file of the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveFile {
    /// Which.
    pub id: i64,
    /// What it is called in the archive.
    pub object: String,
    /// How many bytes it has.
    pub bytes: u64,
    /// The SHA-256 of them.
    pub sha256: Vec<u8>,
    /// When its runs were archived.
    pub written_at: Timestamp,
}

/// A file that nothing needs, or that is not needed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpareFile {
    /// Which.
    pub id: i64,
    /// What it is called in the archive.
    pub object: String,
}

/// What was written to the archive under a reserved name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileContent {
    /// How many bytes.
    pub bytes: u64,
    /// The SHA-256 of them.
    pub sha256: [u8; 32],
    /// When the last of the runs in it ended.
    pub newest_at: Timestamp,
    /// Its runs, each with the SHA-256 of what it says of them.
    pub runs: Vec<(RunId, [u8; 32])>,
}

impl FileContent {
    fn run_columns(&self) -> (Vec<Uuid>, Vec<&[u8]>) {
        let rows = self.runs.iter();
        rows.map(|(run, sha256)| (*run.as_uuid(), sha256.as_slice()))
            .unzip()
    }
}

/// Where a run is archived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundRun {
    /// The file that has it.
    pub file: ArchiveFile,
    /// The claim of its key.
    pub claim: ClaimId,
    /// The SHA-256 of what the file says of it.
    pub sha256: Vec<u8>,
}

/// A run as [`keep`] records it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArchivedRun {
    pub(crate) run: Uuid,
    pub(crate) namespace_id: i32,
    pub(crate) claim: Uuid,
}

/// Reserves a name for a file that is about to be written.
pub async fn reserve(cell: EveryCell<'_>, object: &str) -> Result<SpareFile, ReadError> {
    let row = cell.reader().await?.query_one(RESERVE, &[&object]).await?;
    Ok(SpareFile {
        id: row.get(0),
        object: object.to_owned(),
    })
}

/// Makes a file the one that has these runs, in the transaction that deletes them. False where it was taken
/// for one that a crash left.
pub(crate) async fn keep(
    tx: &deadpool_postgres::Transaction<'_>,
    file: &SpareFile,
    content: &FileContent,
    runs: &[ArchivedRun],
) -> Result<bool, ReadError> {
    let (sha256, bytes) = (content.sha256.as_slice(), signed(content.bytes));
    let values: [&(dyn ToSql + Sync); 4] = [&file.id, &sha256, &bytes, &content.newest_at];
    if tx.execute(KEEP, &values).await? == 0 {
        return Ok(false);
    }
    let ids: Vec<Uuid> = runs.iter().map(|it| it.run).collect();
    let namespaces: Vec<i32> = runs.iter().map(|it| it.namespace_id).collect();
    let claims: Vec<Uuid> = runs.iter().map(|it| it.claim).collect();
    let (written, digests) = content.run_columns();
    let values: [&(dyn ToSql + Sync); 6] =
        [&file.id, &ids, &namespaces, &claims, &written, &digests];
    // A run that is not in the file is not deleted.
    Ok(tx.execute(ADD_RUNS, &values).await? == runs.len() as u64)
}

/// Where a run of a namespace is archived.
pub async fn find(
    cell: SlotCell<'_>,
    namespace_id: i32,
    run: RunId,
) -> Result<Option<FoundRun>, ReadError> {
    let client = cell.reader().await?;
    let row = client
        .query_opt(FIND, &[run.as_uuid(), &namespace_id])
        .await?;
    Ok(row.map(|row| FoundRun {
        file: read_file(&row),
        claim: ClaimId::from_uuid(row.get(5)),
        sha256: row.get(6),
    }))
}

/// A file as it is called now. None where its time is over.
pub async fn get(cell: SlotCell<'_>, id: i64) -> Result<Option<ArchiveFile>, ReadError> {
    let row = cell.reader().await?.query_opt(GET, &[&id]).await?;
    Ok(row.as_ref().map(read_file))
}

/// The archived runs of a key with their child runs, by file.
pub async fn list_of_key(
    cell: SlotCell<'_>,
    claim: ClaimId,
) -> Result<Vec<(i64, Vec<RunId>)>, ReadError> {
    let (low, high) = RunId::from_uuid(*claim.as_uuid()).key_range();
    let client = cell.reader().await?;
    let rows = client
        .query(OF_KEY, &[&low, &high, claim.as_uuid()])
        .await?;
    let mut files: Vec<(i64, Vec<RunId>)> = Vec::new();
    for row in rows {
        let (id, run) = (row.get(0), RunId::from_uuid(row.get(1)));
        match files.last_mut().filter(|(last, _)| *last == id) {
            Some((_, runs)) => runs.push(run),
            None => files.push((id, vec![run])),
        }
    }
    Ok(files)
}

/// Puts a file in the place of another that has the same runs. What it takes the place of is to be removed, and is
/// what `new` names from then on. False where another did so first, or the reserved name was given up.
pub async fn replace(
    cell: SlotCell<'_>,
    old: &ArchiveFile,
    new: &SpareFile,
    content: &FileContent,
) -> Result<bool, ReadError> {
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    let given = tx.execute(TAKE_OLD_NAME, &[&new.id, &old.object]).await?;
    let (sha256, bytes) = (content.sha256.as_slice(), signed(content.bytes));
    let values: [&(dyn ToSql + Sync); 5] = [&old.id, &old.object, &new.object, &sha256, &bytes];
    let taken = tx.execute(TAKE_PLACE, &values).await?;
    if (given, taken) != (1, 1) {
        return Ok(false);
    }
    let (written, digests) = content.run_columns();
    let values: [&(dyn ToSql + Sync); 3] = [&old.id, &written, &digests];
    tx.execute(CHANGE_RUNS, &values).await?;
    tx.commit().await?;
    Ok(true)
}

/// Gives a reserved name up: what was written under it is not needed.
pub async fn discard(cell: EveryCell<'_>, file: &SpareFile) -> Result<(), ReadError> {
    cell.reader().await?.execute(DISCARD, &[&file.id]).await?;
    Ok(())
}

/// Files that nothing needs, those that a crash left among them, at most a hundred.
pub async fn take_unneeded(cell: EveryCell<'_>) -> Result<Vec<SpareFile>, ReadError> {
    let secs = WRITING_MAX.as_secs_f64();
    let client = cell.reader().await?;
    let rows = client.query(TAKE_UNNEEDED, &[&secs, &UNNEEDED_MAX]).await?;
    let read = |row: &Row| SpareFile {
        id: row.get(0),
        object: row.get(1),
    };
    Ok(rows.iter().map(read).collect())
}

/// Puts a file that could not be removed behind the others.
pub async fn put_off(cell: EveryCell<'_>, file: &SpareFile) -> Result<(), ReadError> {
    cell.reader().await?.execute(PUT_OFF, &[&file.id]).await?;
    Ok(())
}

/// Whether runs are archived in this installation.
pub async fn has_kept(cell: EveryCell<'_>) -> Result<bool, ReadError> {
    let row = cell.reader().await?.query_one(HAS_KEPT, &[]).await?;
    Ok(row.get(0))
}

/// Forgets a file that was removed.
pub async fn forget(cell: EveryCell<'_>, file: &SpareFile) -> Result<(), ReadError> {
    cell.reader().await?.execute(FORGET, &[&file.id]).await?;
    Ok(())
}

/// Lets files go whose runs all ended longer ago than this. Gives how many.
pub async fn expire(cell: EveryCell<'_>, keep: Span) -> Result<u64, ReadError> {
    let client = cell.reader().await?;
    let row = client
        .query_one(EXPIRE, &[&keep.as_secs_f64(), &EXPIRE_MAX])
        .await?;
    Ok(row.get::<_, i64>(0).unsigned_abs())
}

fn read_file(row: &Row) -> ArchiveFile {
    let bytes: i64 = row.get(2);
    ArchiveFile {
        id: row.get(0),
        object: row.get(1),
        bytes: bytes.unsigned_abs(),
        sha256: row.get(3),
        written_at: row.get(4),
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
