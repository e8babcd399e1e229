//! Runs that are past their time: deleted with everything that was written for them.
//!
//! Candidates are found a page at a time by the index of their release, oldest first. What may go is
//! judged a key at a time, under the lock of its claim:
//!
//! - While a run of the key is active, or something of it is in doubt or waits for an operator, or a
//!   named effect does not know its outcome yet, nothing of the key goes.
//! - While the key is held, its run stays: a repeat gets that run's answer.
//! - A run that another one followed goes once a later run has read what was done before it, so that
//!   no effect is forgotten that the next run of the key would repeat. One with items or branches
//!   stays until all of its key goes: each of those is read by the one that stands at its place later.
//! - With the last run of a key that is free goes its claim.

use std::collections::HashMap;

use jiff::Timestamp;
use jiff::civil::Date;
use semel_model::{ClaimId, RunId, Span};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::cell::{EveryCell, ReadError};

/// Whether a run of a key has not ended, something of it is in doubt or waits for an operator, or a named
/// effect does not know its outcome yet.
macro_rules! is_open {
    () => {
        "EXISTS (SELECT FROM queue q WHERE q.run_id BETWEEN k.low AND k.high)
           OR EXISTS (SELECT FROM attention a WHERE a.subject_id BETWEEN k.low AND k.high)
           OR EXISTS (SELECT FROM named_effect_notices n WHERE n.run_id BETWEEN k.low AND k.high)"
    };
}

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

/// A claim that another session has locked is looked at next time.
const LOCK: &str = "
    SELECT id, expires_at IS NULL, intent IS NOT NULL FROM claims
     WHERE id = ANY ($1)
     ORDER BY id
       FOR UPDATE SKIP LOCKED";

/// The runs of keys, oldest first: whether each is past its time, whether it read what was done before
/// it (the first run of a key, which has the identity of its claim, had nothing to read), and whether
/// anything of its key is open.
const JUDGE: &str = concat!(
    "
    SELECT r.claim_id, r.id, coalesce(r.ended_at < (SELECT moment()) - make_interval(secs => $4), false),
           r.id <> r.claim_id AND
           EXISTS (SELECT FROM journal j, json_array_elements(j.events) e
                    WHERE j.partition_date = r.partition_date AND j.run_id = r.id
                      AND e ->> 'event' = 'inherited'),
           EXISTS (SELECT FROM child_runs c WHERE c.parent_id = r.id),
           ",
    is_open!(),
    "
      FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS k (claim_id, low, high)
      JOIN runs r ON r.id BETWEEN k.low AND k.high AND r.claim_id = k.claim_id
     ORDER BY r.claim_id, r.accepted_at, r.id
       FOR UPDATE OF r"
);

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

/// Runs that are erased, or lost a part of their child runs, are not resumed or replayed any more.
pub(super) const CLOSE: &str = "
    UPDATE runs SET erased_at = coalesce(erased_at, moment()) WHERE id = ANY ($1)";

const FREE_CLAIMS: &str = "DELETE FROM claims WHERE id = ANY ($1) AND expires_at IS NULL";

pub(crate) const STATEMENTS: &[&str] = &[RELEASES, PAGE, LOCK, JUDGE, TREE, DELETE, FREE_CLAIMS];

/// How many runs a page has. The keys of a page are judged in one transaction.
const PAGE_MAX: usize = 200;

/// The most runs, with their child runs, that one transaction deletes.
const DELETE_MAX: usize = 500;

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
    let (secs, limit) = (seconds(history), PAGE_MAX as i64);
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

/// Deletes the runs of keys that are past their time. `keeps_claims` where a key that comes back is a
/// new intent: its claim counts those, and stays.
pub async fn delete_old(
    cell: EveryCell<'_>,
    claims: &[ClaimId],
    history: Span,
    keeps_claims: bool,
) -> Result<DeletedRuns, ReadError> {
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    let ids: Vec<Uuid> = claims.iter().map(|claim| *claim.as_uuid()).collect();
    let locked = tx.query(LOCK, &[&ids]).await?;
    let locked = locked.iter().map(|row| {
        let (is_free, has_intents): (bool, bool) = (row.get(1), row.get(2));
        let may_go = is_free && !has_intents && !keeps_claims;
        (row.get::<_, Uuid>(0), (is_free, may_go))
    });
    let locked: HashMap<Uuid, (bool, bool)> = locked.collect();
    let ids: Vec<Uuid> = locked.keys().copied().collect();
    let ranges = ids.iter().map(|id| RunId::from_uuid(*id).key_range());
    let (low, high): (Vec<Uuid>, Vec<Uuid>) = ranges.unzip();
    let secs = seconds(history);
    let values: [&(dyn ToSql + Sync); 4] = [&ids, &low, &high, &secs];
    let mut keys: HashMap<Uuid, Vec<JudgedRun>> = HashMap::new();
    for row in tx.query(JUDGE, &values).await? {
        keys.entry(row.get(0)).or_default().push(JudgedRun {
            id: row.get(1),
            is_old: row.get(2),
            has_read: row.get(3),
            has_children: row.get(4),
            is_open: row.get(5),
        });
    }
    let mut batch = DeletedBatch::default();
    for (claim, judged) in &keys {
        let (is_free, may_go) = locked[claim];
        let (gone, is_whole) = which_go(judged, is_free);
        if !batch.add_key(&tx, gone).await? {
            break;
        }
        batch.free.extend((is_whole && may_go).then_some(*claim));
    }
    if batch.tree.is_empty() {
        return Ok(DeletedRuns::default());
    }
    let count = delete(&tx, &batch.tree).await?;
    tx.execute(CLOSE, &[&batch.halved]).await?;
    tx.execute(FREE_CLAIMS, &[&batch.free]).await?;
    tx.commit().await?;
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
    /// Claims that go as well.
    free: Vec<Uuid>,
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
        runs: Vec<Uuid>,
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
            self.halved = runs;
        }
        Ok(fits)
    }
}

/// A run of a key.
struct JudgedRun {
    id: Uuid,
    is_old: bool,
    has_read: bool,
    has_children: bool,
    is_open: bool,
}

/// Which runs of a key may go, and whether these are all.
fn which_go(runs: &[JudgedRun], is_free: bool) -> (Vec<Uuid>, bool) {
    if runs.iter().any(|run| run.is_open) {
        return (Vec::new(), false);
    }
    if is_free && runs.iter().all(|run| run.is_old) {
        return (runs.iter().map(|run| run.id).collect(), true);
    }
    let read = runs.iter().rposition(|run| run.has_read).unwrap_or(0);
    let gone = runs[..read].iter();
    let gone = gone.filter(|run| run.is_old && !run.has_children);
    (gone.map(|run| run.id).collect(), false)
}

async fn delete(
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

fn seconds(span: Span) -> f64 {
    span.as_millis() as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(number: u128, is_old: bool, has_read: bool) -> JudgedRun {
        JudgedRun {
            id: Uuid::from_u128(number),
            is_old,
            has_read,
            has_children: false,
            is_open: false,
        }
    }

    fn numbers((gone, is_whole): (Vec<Uuid>, bool)) -> (Vec<u128>, bool) {
        (gone.iter().map(Uuid::as_u128).collect(), is_whole)
    }

    #[test]
    fn the_run_that_answers_for_a_held_key_stays() {
        let runs = [run(1, true, false)];

        assert_eq!(numbers(which_go(&runs, false)), (vec![], false));
        assert_eq!(numbers(which_go(&runs, true)), (vec![1], true));
    }

    #[test]
    fn a_run_that_was_followed_goes_once_a_later_one_has_read_it() {
        let unread = [run(1, true, false), run(2, false, false)];
        let read = [
            run(1, true, false),
            run(2, true, false),
            run(3, false, true),
        ];
        let young = [
            run(1, true, false),
            run(2, false, true),
            run(3, false, true),
        ];

        assert_eq!(numbers(which_go(&unread, true)), (vec![], false));
        assert_eq!(numbers(which_go(&read, false)), (vec![1, 2], false));
        assert_eq!(numbers(which_go(&young, false)), (vec![1], false));
    }

    #[test]
    fn a_run_with_items_goes_with_its_whole_key_only() {
        let mut runs = [run(1, true, false), run(2, false, true)];
        runs[0].has_children = true;

        assert_eq!(numbers(which_go(&runs, true)), (vec![], false));
        runs[1].is_old = true;
        assert_eq!(numbers(which_go(&runs, true)), (vec![1, 2], true));
    }

    #[test]
    fn nothing_of_a_key_goes_while_anything_of_it_is_open() {
        let mut runs = [run(1, true, false), run(2, true, true)];
        runs[0].is_open = true;

        assert_eq!(numbers(which_go(&runs, true)), (vec![], false));
    }
}
