//! Claims whose runs are gone.
//!
//! Most go with their last run. One stays where a destination may still remember a key of an effect, and
//! the key would begin again at generation 0: effects of it were undone or performed again
//! (`kept_generations`), or it came back as a new intent. It goes when the longest of those memories is
//! over, and with it what is kept of its generations.
//!
//! The runs of a key may be on several releases, and a later one may remember less than an earlier one that
//! is long gone. So each run that goes leaves its memory with the claim, which keeps the longest.

use std::collections::BTreeMap;

use semel_model::RunId;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::cell::{EveryCell, ReadError};
use crate::kept_generations::KeyMemory;

/// Until when destinations remember the keys of runs that go now. A release that nothing is said of remembers without
/// end.
const REMEMBER: &str = "
    WITH remembered AS MATERIALIZED (
        SELECT r.claim_id,
               max(coalesce((SELECT moment()) + make_interval(secs => m.secs), 'infinity')) AS until
          FROM unnest($1::uuid[]) AS t (run_id)
          JOIN runs r ON r.id = t.run_id
          LEFT JOIN unnest($2::int4[], $3::float8[]) AS m (release_id, secs) ON m.release_id = r.release_id
         GROUP BY r.claim_id)
    UPDATE claims c
       SET kept_until = greatest(c.kept_until, m.until)
      FROM remembered m
     WHERE c.id = m.claim_id AND m.until > (SELECT moment())";

/// Claims that stay although their runs are gone, and until when; one without end is never looked at again.
const KEEP: &str = "
    WITH remembered AS MATERIALIZED (
        SELECT t.id, greatest(CASE WHEN t.counts THEN c.kept_until END,
                              (SELECT max(g.kept_until) FROM kept_generations g
                                WHERE g.first_run BETWEEN t.low AND t.high)) AS until
          FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::bool[]) AS t (id, low, high, counts)
          JOIN claims c ON c.id = t.id)
    UPDATE claims c
       SET kept_until = m.until
      FROM remembered m
     WHERE c.id = m.id AND c.expires_at IS NULL AND m.until > (SELECT moment())
 RETURNING c.id";

const FREE: &str = "
    WITH ended AS MATERIALIZED (
        SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS t (id, low, high)),
    freed AS (
        DELETE FROM claims c
         USING ended e
         WHERE c.id = e.id AND c.expires_at IS NULL
     RETURNING c.id)
    DELETE FROM kept_generations g
     USING ended e
     WHERE g.first_run BETWEEN e.low AND e.high AND e.id IN (SELECT id FROM freed)";

/// A claim whose key came back meanwhile has runs again, and is looked at when those go.
const OUTLIVED: &str = "
    SELECT c.id
      FROM claims c
     WHERE c.kept_until <= (SELECT moment())
     ORDER BY c.kept_until
     LIMIT $1
       FOR UPDATE SKIP LOCKED";

/// Which of some claims hold their keys, or have runs.
const IN_USE: &str = "
    UPDATE claims c
       SET kept_until = NULL
      FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS t (id, low, high)
     WHERE c.id = t.id
       AND (c.expires_at IS NOT NULL OR EXISTS (SELECT FROM runs r WHERE r.id BETWEEN t.low AND t.high))
 RETURNING c.id";

pub(crate) const STATEMENTS: &[&str] = &[REMEMBER, KEEP, FREE, OUTLIVED, IN_USE];

/// How claims of a flow's keys outlast their runs.
///
/// By default no claim counts, unless an operator made a key a new intent: that claim stays without end.
#[derive(Clone, Debug, Default)]
pub struct ClaimRule {
    /// Whether a key that comes back is a new intent: its claim counts those, and stays.
    pub counts: bool,
    /// How long a claim that counts stays after a run, by the run's release: the longest that a destination of it
    /// remembers a key. Without end for a release that is not named.
    pub memories: BTreeMap<i32, KeyMemory>,
}

/// A key whose runs go, all of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndedKey {
    pub(super) claim: Uuid,
    /// Whether it came back as a new intent, or may.
    pub(super) counts: bool,
}

/// Whether the claim of runs that go may need to know how long their keys are remembered: it outlasts them, or the
/// key may count later, while others of its runs are left.
pub(super) fn leaves_memory(ends: Option<&EndedKey>) -> bool {
    ends.is_none_or(|key| key.counts)
}

/// Claims with the range that everything of their keys is in, one array per column.
struct Ranges {
    ids: Vec<Uuid>,
    low: Vec<Uuid>,
    high: Vec<Uuid>,
}

impl Ranges {
    fn of(ids: Vec<Uuid>) -> Self {
        let ranges = ids.iter().map(|id| RunId::from_uuid(*id).key_range());
        let (low, high) = ranges.unzip();
        Self { ids, low, high }
    }

    fn values(&self) -> [&(dyn ToSql + Sync); 3] {
        [&self.ids, &self.low, &self.high]
    }
}

/// Keeps with their claims until when destinations remember the keys of runs that are about to be deleted.
pub(super) async fn remember(
    tx: &deadpool_postgres::Transaction<'_>,
    runs: &[Uuid],
    rule: &ClaimRule,
) -> Result<(), ReadError> {
    if runs.is_empty() {
        return Ok(());
    }
    let memories = rule.memories.iter();
    let (releases, secs): (Vec<i32>, Vec<Option<f64>>) = memories
        .map(|(release, memory)| (*release, memory.secs()))
        .unzip();
    tx.execute(REMEMBER, &[&runs, &releases, &secs]).await?;
    Ok(())
}

/// Removes claims whose runs went in this transaction, or says until when they stay.
pub(super) async fn end(
    tx: &deadpool_postgres::Transaction<'_>,
    keys: &[EndedKey],
) -> Result<(), ReadError> {
    if keys.is_empty() {
        return Ok(());
    }
    let all = Ranges::of(keys.iter().map(|key| key.claim).collect());
    let counts: Vec<bool> = keys.iter().map(|key| key.counts).collect();
    let [ids, low, high] = all.values();
    let rows = tx.query(KEEP, &[ids, low, high, &counts]).await?;
    let kept: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
    free(tx, all.ids, &kept).await
}

async fn free(
    tx: &deadpool_postgres::Transaction<'_>,
    mut claims: Vec<Uuid>,
    kept: &[Uuid],
) -> Result<(), ReadError> {
    claims.retain(|claim| !kept.contains(claim));
    tx.execute(FREE, &Ranges::of(claims).values()).await?;
    Ok(())
}

/// Removes claims that were kept after their runs for as long as destinations remember their keys. Says how
/// many it looked at.
pub(super) async fn forget_outlived(cell: EveryCell<'_>, limit: i64) -> Result<u64, ReadError> {
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    let rows = tx.query(OUTLIVED, &[&limit]).await?;
    let outlived = Ranges::of(rows.iter().map(|row| row.get(0)).collect());
    let looked = outlived.ids.len() as u64;
    if looked > 0 {
        let rows = tx.query(IN_USE, &outlived.values()).await?;
        let used: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
        free(&tx, outlived.ids, &used).await?;
    }
    tx.commit().await?;
    Ok(looked)
}
