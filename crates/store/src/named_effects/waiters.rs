//! The `named_effect_waiters` table: runs that wait until a named effect is settled.
//!
//! A settlement lists the waiters and leaves their rows; [`woken`] removes them once their runs were
//! woken. A server that dies in between leaves rows whose effect is no longer held, and
//! [`list_left_behind`] finds them. A run may be woken twice, and is never forgotten.

use std::collections::HashSet;

use deadpool_postgres::Transaction;
use jiff::Timestamp;
use semel_model::{NamedEffectId, RunId};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::cell::{EveryCell, ReadError, SlotCell};

const WAIT: &str = "
    INSERT INTO named_effect_waiters (effect_id, run_id, step, since)
    VALUES ($1, $2, $3, moment())
        ON CONFLICT (effect_id, run_id, step) DO UPDATE SET since = EXCLUDED.since";

const LIST: &str = "
    SELECT effect_id, run_id, step, since FROM named_effect_waiters WHERE effect_id = $1";

/// A run that was woken and waits again has a later row, which stays.
const WOKEN: &str = "
    DELETE FROM named_effect_waiters w
     USING unnest($2::uuid[], $3::text[], $4::timestamptz[]) AS t (run_id, step, since)
     WHERE w.effect_id = $1 AND w.run_id = t.run_id AND w.step = t.step AND w.since <= t.since";

const LEFT_BEHIND: &str = "
    SELECT w.effect_id, w.run_id, w.step, w.since
      FROM named_effect_waiters w
      LEFT JOIN named_effects n ON n.id = w.effect_id
     WHERE n.id IS NULL OR n.state NOT IN ('pending', 'in_doubt')
     ORDER BY w.since
     LIMIT $1";

/// A run that a worker holds may go to sleep after it found the effect held: it is woken later. One
/// that is stopped needs an operator.
const WAKE: &str = "/* commits alone: named effect wake */
    WITH found AS MATERIALIZED (
        SELECT run_id, holder FROM queue WHERE run_id = ANY ($1) ORDER BY run_id FOR UPDATE),
    woken AS (
        UPDATE queue q
           SET due_at = least(q.due_at, (SELECT moment())), stage = 'ready'
         WHERE q.run_id = ANY (ARRAY(SELECT run_id FROM found WHERE holder IS NULL))
           AND q.stage <> 'stopped')
    SELECT run_id FROM found WHERE holder IS NOT NULL";

pub(crate) const STATEMENTS: &[&str] = &[WAIT, LIST, WOKEN, LEFT_BEHIND, WAKE];

/// The most waiters that one pass of a repair finds.
const LEFT_BEHIND_MAX: i64 = 1_000;

/// A run that waits until a named effect is settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedEffectWaiter {
    /// The effect.
    pub effect: NamedEffectId,
    /// The run.
    pub run: RunId,
    /// The step's path.
    pub step: String,
    /// When it last found the effect held or in doubt.
    pub since: Timestamp,
}

/// Makes a run a waiter, under the lock of the effect's row.
pub(super) async fn wait(
    tx: &Transaction<'_>,
    effect: NamedEffectId,
    run: RunId,
    step: &str,
) -> Result<(), ReadError> {
    let values: [&(dyn ToSql + Sync); 3] = [effect.as_uuid(), run.as_uuid(), &step];
    tx.execute(WAIT, &values).await?;
    Ok(())
}

/// The waiters of an effect. In a statement after the one that locks the effect's row, so that it
/// sees those that became waiters while that one waited for the lock.
pub(super) async fn of_effect(
    tx: &Transaction<'_>,
    effect: NamedEffectId,
) -> Result<Vec<NamedEffectWaiter>, ReadError> {
    let rows = tx.query(LIST, &[effect.as_uuid()]).await?;
    Ok(rows.iter().map(read_waiter).collect())
}

/// Makes runs due that wait, and gives the waiters whose runs are due or gone. The others are in a
/// worker's hands: their rows stay, and a repair wakes them.
pub async fn wake(
    cell: EveryCell<'_>,
    mut waiters: Vec<NamedEffectWaiter>,
) -> Result<Vec<NamedEffectWaiter>, ReadError> {
    if waiters.is_empty() {
        return Ok(waiters);
    }
    let runs: Vec<Uuid> = waiters.iter().map(|it| *it.run.as_uuid()).collect();
    let rows = cell.reader().await?.query(WAKE, &[&runs]).await?;
    let busy: HashSet<Uuid> = rows.iter().map(|row| row.get(0)).collect();
    waiters.retain(|it| !busy.contains(it.run.as_uuid()));
    Ok(waiters)
}

/// Removes waiters of one effect whose runs were woken.
pub async fn woken(
    cell: SlotCell<'_>,
    effect: NamedEffectId,
    waiters: &[NamedEffectWaiter],
) -> Result<(), ReadError> {
    if waiters.is_empty() {
        return Ok(());
    }
    let runs: Vec<Uuid> = waiters.iter().map(|it| *it.run.as_uuid()).collect();
    let steps: Vec<&str> = waiters.iter().map(|it| it.step.as_str()).collect();
    let since: Vec<Timestamp> = waiters.iter().map(|it| it.since).collect();
    let values: [&(dyn ToSql + Sync); 4] = [effect.as_uuid(), &runs, &steps, &since];
    cell.reader().await?.execute(WOKEN, &values).await?;
    Ok(())
}

/// Lists waiters whose effect is neither held nor in doubt, the oldest first: a server died before
/// it woke them.
pub async fn list_left_behind(cell: EveryCell<'_>) -> Result<Vec<NamedEffectWaiter>, ReadError> {
    let client = cell.reader().await?;
    let rows = client.query(LEFT_BEHIND, &[&LEFT_BEHIND_MAX]).await?;
    Ok(rows.iter().map(read_waiter).collect())
}

fn read_waiter(row: &Row) -> NamedEffectWaiter {
    NamedEffectWaiter {
        effect: NamedEffectId::from_uuid(row.get(0)),
        run: RunId::from_uuid(row.get(1)),
        step: row.get(2),
        since: row.get(3),
    }
}
