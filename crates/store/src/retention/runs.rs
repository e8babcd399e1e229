//! Runs that are past their time: deleted with everything that was written for them.
//!
//! Candidates are found a page at a time by the index of their release, oldest first. `judge` says what of
//! each key may go.

use jiff::Timestamp;
use jiff::civil::Date;
use semel_model::{ClaimId, RunId, Span};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::claims::{self, ClaimRule, EndedKey, leaves_memory};
use super::judge::judge;
use crate::cell::{EveryCell, ReadError};

/// Every release that a run is on.
const RELEASES: &str = "
    WITH RECURSIVE found AS (
        (SELECT release_id FROM runs WHERE parent_id IS NULL ORDER BY release_id LIMIT 1)
        UNION ALL
        SELECT (SELECT r.release_id FROM runs r
                 WHERE r.parent_id IS NULL AND r.release_id > f.release_id
                 ORDER BY r.release_id LIMIT 1)
          FROM found f
         WHERE f.release_id IS NOT NULL)
    SELECT release_id FROM found WHERE release_id IS NOT NULL";

/// The next page of a release's runs that were accepted so long ago that they may be past their time.
const PAGE: &str = "
    SELECT r.accepted_at, r.id, r.claim_id,
           coalesce(r.ended_at < (SELECT moment()) - make_interval(secs => $4), false)
      FROM runs r
     WHERE r.release_id = $1 AND r.parent_id IS NULL AND (r.accepted_at, r.id) > ($2, $3)
       AND r.accepted_at < (SELECT moment()) - make_interval(secs => $4)
     ORDER BY r.accepted_at, r.id
     LIMIT $5";

/// Runs and what they are the parents of, innermost first.
pub(super) const TREE: &str = "
    WITH RECURSIVE tree (id, depth) AS (
        SELECT t.id, 0 FROM unnest($1::uuid[]) AS t (id)
        UNION ALL
        SELECT c.run_id, t.depth + 1 FROM tree t JOIN child_runs c ON c.parent_id = t.id)
    SELECT t.id, r.partition_date
      FROM tree t
      LEFT JOIN runs r ON r.id = t.id
     ORDER BY t.depth DESC
     LIMIT $2";

/// The effects of a key lie together, those of one run among them do not.
const DELETE: &str = "/* commits alone: delete runs */
    WITH gone AS MATERIALIZED (
        SELECT *
          FROM unnest($1::uuid[], $2::date[], $3::uuid[], $4::uuid[], $5::uuid[], $6::uuid[])
            AS t (run_id, partition_date, low, high, wait_low, wait_high)),
    dated AS MATERIALIZED (
        SELECT DISTINCT partition_date, low, high FROM gone WHERE partition_date IS NOT NULL),
    ranges AS MATERIALIZED (SELECT DISTINCT low, high FROM gone),
    lines AS (
        DELETE FROM journal j USING gone g
         WHERE j.partition_date = g.partition_date AND j.run_id = g.run_id),
    ledger AS (
        DELETE FROM effects e USING dated d
         WHERE e.partition_date = d.partition_date AND e.id BETWEEN d.low AND d.high
           AND e.run_id IN (SELECT run_id FROM gone)),
    late AS (DELETE FROM late_responses l USING gone g WHERE l.run_id = g.run_id),
    waited AS (DELETE FROM waits w USING gone g WHERE w.run_id = g.run_id),
    asked AS (
        DELETE FROM approvals a USING gone g
         WHERE a.id BETWEEN g.wait_low AND g.wait_high AND a.run_id = g.run_id),
    worked AS (
        DELETE FROM tasks t USING ranges k
         WHERE t.id BETWEEN k.low AND k.high AND t.run_id IN (SELECT run_id FROM gone)),
    repeated AS (
        DELETE FROM duplicates d USING gone g
         WHERE d.run_id = g.run_id AND (d.verdict <> 'held' OR d.decision IS NOT NULL)),
    places AS (DELETE FROM child_runs c USING gone g WHERE c.run_id = g.run_id),
    ended AS (DELETE FROM runs r USING gone g WHERE r.id = g.run_id RETURNING 1)
    SELECT count(*) FROM ended";

/// Runs whose erasure begins, or that lost a part of their child runs, are not resumed or replayed any
/// more.
pub(super) const CLOSE: &str = "
    UPDATE runs SET closed_at = coalesce(closed_at, moment()) WHERE id = ANY ($1)";

pub(crate) const STATEMENTS: &[&str] = &[RELEASES, PAGE, TREE, DELETE, CLOSE];

/// How many runs a page has. The keys of a page are judged in one transaction.
const PAGE_MAX: usize = 200;

/// The most runs, with their child runs, that one transaction deletes.
pub(super) const DELETE_MAX: usize = 500;

/// Where the runs of a release have been looked at up to.
#[derive(Clone, Copy, Debug)]
pub struct RunCursor {
    accepted_at: Timestamp,
    run: RunId,
}

/// A page of a release's runs, oldest first.
#[derive(Debug)]
pub struct OldRuns {
    /// The keys of those that are past their time.
    pub claims: Vec<ClaimId>,
    /// Where the next page begins. None where there is no other.
    pub next: Option<RunCursor>,
}

/// What was deleted of some keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeletedRuns {
    /// How many runs, with child runs.
    pub count: u64,
    /// Whether there were more than one transaction deletes.
    pub more: bool,
}

/// The releases that runs are on.
pub async fn list_releases(cell: EveryCell<'_>) -> Result<Vec<i32>, ReadError> {
    let rows = cell.reader().await?.query(RELEASES, &[]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// The next runs of a release that may be past their time.
pub async fn list_old(
    cell: EveryCell<'_>,
    release_id: i32,
    after: Option<RunCursor>,
    history: Span,
) -> Result<OldRuns, ReadError> {
    let after = after.unwrap_or(RunCursor {
        accepted_at: Timestamp::UNIX_EPOCH,
        run: RunId::from_uuid(Uuid::nil()),
    });
    let (secs, limit) = (history.as_secs_f64(), PAGE_MAX as i64);
    let values: [&(dyn ToSql + Sync); 5] = [
        &release_id,
        &after.accepted_at,
        after.run.as_uuid(),
        &secs,
        &limit,
    ];
    let rows = cell.reader().await?.query(PAGE, &values).await?;
    let old = rows.iter().filter(|row| row.get(3));
    let mut claims: Vec<ClaimId> = old.map(|row| ClaimId::from_uuid(row.get(2))).collect();
    claims.sort_unstable();
    claims.dedup();
    let last = rows.last().filter(|_| rows.len() == PAGE_MAX);
    let next = last.map(|row| RunCursor {
        accepted_at: row.get(0),
        run: RunId::from_uuid(row.get(1)),
    });
    Ok(OldRuns { claims, next })
}

/// Deletes the runs of keys that are past their time, and their claims as `rule` says.
pub async fn delete_old(
    cell: EveryCell<'_>,
    claims: &[ClaimId],
    history: Span,
    rule: &ClaimRule,
) -> Result<DeletedRuns, ReadError> {
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    let deleted = delete_within(&tx, claims, history, rule).await;
    match &deleted {
        Ok(_) => tx.commit().await?,
        // Not by being dropped: whoever judges the keys one by one would find them locked, and pass
        // them over.
        Err(_) => tx.rollback().await?,
    }
    deleted
}

async fn delete_within(
    tx: &deadpool_postgres::Transaction<'_>,
    claims: &[ClaimId],
    history: Span,
    rule: &ClaimRule,
) -> Result<DeletedRuns, ReadError> {
    let mut batch = DeletedBatch::default();
    for key in judge(tx, claims, history, rule.clone()).await? {
        if !batch.add_key(tx, &key.gone).await? {
            break;
        }
        if leaves_memory(key.ends.as_ref()) {
            batch.remembered.extend(key.gone);
        }
        batch.ended.extend(key.ends);
    }
    if batch.tree.is_empty() {
        return Ok(DeletedRuns::default());
    }
    claims::remember(tx, &batch.remembered, rule).await?;
    let count = delete(tx, &batch.tree).await?;
    tx.execute(CLOSE, &[&batch.halved]).await?;
    claims::end(tx, &batch.ended).await?;
    Ok(DeletedRuns {
        count,
        more: batch.is_full,
    })
}

/// What one transaction deletes.
#[derive(Default)]
struct DeletedBatch {
    /// Runs and child runs, with the partition of their journal where they began.
    tree: Vec<(Uuid, Option<Date>)>,
    /// Runs that leave with their claims how long their keys are remembered.
    remembered: Vec<Uuid>,
    /// Keys that lose all of their runs.
    ended: Vec<EndedKey>,
    /// Runs that lose a part of their child runs only.
    halved: Vec<Uuid>,
    is_full: bool,
}

impl DeletedBatch {
    /// Adds the runs of a key that go, with their child runs: all of them, or as many as fit where the key is the
    /// first. False where not all were added.
    async fn add_key(
        &mut self,
        tx: &deadpool_postgres::Transaction<'_>,
        runs: &[Uuid],
    ) -> Result<bool, ReadError> {
        if runs.is_empty() {
            return Ok(true);
        }
        let limit = DELETE_MAX as i64 + 1;
        let rows = tx.query(TREE, &[&runs, &limit]).await?;
        let fits = self.tree.len() + rows.len() <= DELETE_MAX;
        self.is_full = !fits;
        if !fits && !self.tree.is_empty() {
            return Ok(false);
        }
        let tree = rows.iter().map(|row| (row.get(0), row.get(1)));
        self.tree.extend(tree.take(DELETE_MAX));
        if !fits {
            self.halved = runs.to_vec();
        }
        Ok(fits)
    }
}

pub(super) async fn delete(
    tx: &deadpool_postgres::Transaction<'_>,
    tree: &[(Uuid, Option<Date>)],
) -> Result<u64, ReadError> {
    let ids: Vec<Uuid> = tree.iter().map(|(id, _)| *id).collect();
    let dates: Vec<Option<Date>> = tree.iter().map(|(_, date)| *date).collect();
    let runs = || ids.iter().map(|id| RunId::from_uuid(*id));
    let (low, high): (Vec<Uuid>, Vec<Uuid>) = runs().map(|run| run.key_range()).unzip();
    let (wait_low, wait_high): (Vec<Uuid>, Vec<Uuid>) = runs().map(|run| run.wait_range()).unzip();
    let values: [&(dyn ToSql + Sync); 6] = [&ids, &dates, &low, &high, &wait_low, &wait_high];
    let count: i64 = tx.query_one(DELETE, &values).await?.get(0);
    Ok(count.unsigned_abs())
}
