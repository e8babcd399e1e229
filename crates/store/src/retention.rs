//! Retention: frees keys, and deletes history, answers and entries, whose time is over.
//!
//! Small batches, by index, never a scan. A key whose run has not ended is never freed, and
//! `keep` counts from its run's end: if the run ended after its expiry was last set, the expiry
//! moves instead. A claim gets its expiry when its run is accepted and is looked at once that is
//! over, so the commit that ends a run writes nothing for it.

#[macro_use]
mod judge;
mod archived;
mod claims;
mod erase;
mod runs;

pub(crate) use archived::STATEMENTS as ARCHIVED;
pub use archived::{GoingKey, GoingKeys, delete_archived, list_going};
pub use claims::ClaimRule;
pub(crate) use claims::STATEMENTS as CLAIMS;
pub(crate) use erase::STATEMENTS as ERASE;
pub use erase::{
    ERASED_FAMILY_MAX, ErasedRun, Family, Marked, complete, erase, erase_elsewhere, erase_named,
    find_run_of, list_stored, mark,
};
pub(crate) use judge::STATEMENTS as JUDGED;
pub use runs::{DeletedRuns, OldRuns, RunCursor, delete_old, list_old, list_releases};

use semel_model::Span;

use crate::cell::{EveryCell, ReadError};

/// The run is locked while it is judged, so that it cannot be resumed meanwhile; a claim or run
/// that another session has locked at this moment is looked at next time.
const FORGET: &str = "/* commits alone: forget keys */
    WITH present AS MATERIALIZED (SELECT moment() AS now),
    old AS MATERIALIZED (
        SELECT c.id, c.run_id, r.partition_date, r.state IN ('succeeded', 'failed', 'cancelled', 'superseded') AS ended,
               coalesce(r.ended_at, r.accepted_at) AS ended_at, r.accepted_at, c.expires_at,
               c.counted_from
          FROM claims c
          JOIN runs r ON r.id = c.run_id
         WHERE c.expires_at < (SELECT moment())
         ORDER BY c.expires_at
         LIMIT $1
           FOR UPDATE OF c SKIP LOCKED FOR SHARE OF r SKIP LOCKED),
    judged AS MATERIALIZED (
        SELECT o.id, o.run_id, o.partition_date, o.ended, b.counted_from,
               b.counted_from
               + greatest(o.expires_at - coalesce(o.counted_from, o.accepted_at),
                          interval '1 minute') AS expires_at
          FROM old o, present p
         CROSS JOIN LATERAL (
               SELECT CASE WHEN o.ended THEN o.ended_at ELSE p.now END AS counted_from) AS b),
    kept AS (
        UPDATE claims c
           SET expires_at = j.expires_at, counted_from = j.counted_from
          FROM judged j, present p
         WHERE c.id = j.id AND NOT (j.ended AND j.expires_at <= p.now)),
    forgotten AS (
        UPDATE claims c
           SET expires_at = NULL, counted_from = NULL, last_run = j.run_id, last_partition_date = j.partition_date
          FROM judged j, present p
         WHERE c.id = j.id AND j.ended AND j.expires_at <= p.now
     RETURNING 1)
    SELECT (SELECT count(*) FROM forgotten), (SELECT count(*) FROM old)";

const COMMANDS: &str = "
    DELETE FROM commands
     WHERE id IN (SELECT id FROM commands WHERE begun_at < (SELECT moment()) - interval '1 day'
                   ORDER BY begun_at LIMIT $1)";

const ENTRIES: &str = "
    DELETE FROM kv
     WHERE (slot, namespace_id, entry) IN
           (SELECT slot, namespace_id, entry FROM kv WHERE expires_at < (SELECT moment())
             ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED)";

pub(crate) use runs::STATEMENTS as RUNS;

pub(crate) const STATEMENTS: &[&str] = &[FORGET, COMMANDS, ENTRIES];

/// The most rows that one transaction removes.
pub const FORGET_MAX: i64 = 5_000;

/// Frees keys whose time is over and whose run has ended: a delivery of such a key makes its next run. The row
/// of the claim stays for as long as the record of its run at least. Returns how many, and whether there may be more.
pub async fn forget_keys(cell: EveryCell<'_>) -> Result<(u64, bool), ReadError> {
    let ended = "r.state IN ('succeeded', 'failed', 'cancelled', 'superseded')";
    let text = semel_model::SeededBug::KeyForgottenWhileActive.in_text(FORGET, ended, "true");
    let row = cell.reader().await?.query_one(text, &[&FORGET_MAX]).await?;
    let (forgotten, seen): (i64, i64) = (row.get(0), row.get(1));
    Ok((forgotten.unsigned_abs(), seen == FORGET_MAX))
}

/// Removes command answers older than a day, entries, signed bodies and versions past their time,
/// gates whose starts no longer count, claims that outlived their runs for long enough, and sessions that
/// ended long ago; frees runs whose session does not exist any more. Says whether there may be more.
pub async fn sweep(cell: EveryCell<'_>) -> Result<bool, ReadError> {
    let client = cell.reader().await?;
    let commands = client.execute(COMMANDS, &[&FORGET_MAX]).await?;
    let entries = client.execute(ENTRIES, &[&FORGET_MAX]).await?;
    drop(client);
    let bodies = crate::seen_bodies::forget(cell, FORGET_MAX).await?;
    let gates = crate::gates::forget(cell, FORGET_MAX).await?;
    let versions = crate::object_versions::forget(cell, FORGET_MAX).await?;
    let outlived = claims::forget_outlived(cell, FORGET_MAX).await?;
    let is_full = |count: u64| count >= FORGET_MAX.unsigned_abs();
    let mut more = [commands, entries, bodies, gates, versions, outlived]
        .into_iter()
        .any(is_full);
    for cell in cell.cells() {
        crate::sessions::sweep(cell, Span::from_secs(3600)).await?;
        crate::queue::recover_strays(cell).await?;
        more |= is_full(crate::sign_ins::forget(cell.home(), FORGET_MAX).await?);
        more |= is_full(crate::tokens::shown::forget(cell.home(), FORGET_MAX).await?);
    }
    Ok(more)
}
