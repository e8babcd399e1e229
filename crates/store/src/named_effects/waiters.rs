//! The `named_effect_waiters` table: runs that wait until a named effect is settled.
//!
//! A settlement lists waiters and leaves their rows; [`woken`] removes them once their runs were
//! woken. Where the effect is done, all may continue. Where it is free, one of them will hold it next:
//! the oldest few are woken, or each of many waiters would be woken for each that comes before it.
//!
//! Rows whose effect is no longer held, because a server died in between or because those that were
//! woken had ended, are found by [`list_left_behind`]. A run may be woken twice, and is never forgotten:
//! one that a worker holds at this moment goes behind the others ([`put_back`]).

use std::collections::HashSet;

use deadpool_postgres::Transaction;
use jiff::Timestamp;
use semel_model::{NamedEffectId, RunId};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::attention::named::named_compared;
use crate::cell::{EveryCell, ReadError, SlotCell};

const WAIT: &str = "
    INSERT INTO named_effect_waiters (effect_id, run_id, step, since)
    VALUES ($1, $2, $3, moment())
        ON CONFLICT (effect_id, run_id, step) DO UPDATE SET since = EXCLUDED.since";

/// Beside that, the table of what waits for people learns of the state of the name.
const LIST: &str = concat!(
    "
    WITH ",
    named_compared!(),
    "
    SELECT effect_id, run_id, step, since
      FROM named_effect_waiters
     WHERE effect_id = $1
     ORDER BY since
     LIMIT $2"
);

/// A run that was woken and waits again has a later row, which stays.
const WOKEN: &str = "
    DELETE FROM named_effect_waiters w
     USING unnest($2::uuid[], $3::text[], $4::timestamptz[]) AS t (run_id, step, since)
     WHERE w.effect_id = $1 AND w.run_id = t.run_id AND w.step = t.step AND w.since <= t.since";

const PUT_BACK: &str = "
    UPDATE named_effect_waiters w
       SET since = moment()
      FROM unnest($2::uuid[], $3::text[], $4::timestamptz[]) AS t (run_id, step, since)
     WHERE w.effect_id = $1 AND w.run_id = t.run_id AND w.step = t.step AND w.since <= t.since";

/// A page of the names that runs wait for, by one look into the index for each, however many wait;
/// and the oldest waiters of those that are not held.
const LEFT_BEHIND: &str = "
    WITH RECURSIVE names AS (
        (SELECT effect_id FROM named_effect_waiters
          WHERE effect_id > $1 ORDER BY effect_id LIMIT 1)
         UNION ALL
        SELECT (SELECT w.effect_id FROM named_effect_waiters w
                 WHERE w.effect_id > names.effect_id ORDER BY w.effect_id LIMIT 1)
          FROM names
         WHERE names.effect_id IS NOT NULL),
    page AS MATERIALIZED (SELECT effect_id FROM names WHERE effect_id IS NOT NULL LIMIT $2)
    SELECT p.effect_id, w.run_id, w.step, w.since
      FROM page p
      LEFT JOIN named_effects n ON n.id = p.effect_id
      LEFT JOIN LATERAL (
           SELECT f.run_id, f.step, f.since
             FROM named_effect_waiters f
            WHERE f.effect_id = p.effect_id AND (n.id IS NULL OR n.state NOT IN ('pending', 'in_doubt', 'undoing'))
            ORDER BY f.since
            LIMIT CASE WHEN n.state = 'done' THEN $3::int8 ELSE $4::int8 END) w ON true
     ORDER BY p.effect_id, w.since";

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

pub(crate) const STATEMENTS: &[&str] = &[WAIT, LIST, WOKEN, PUT_BACK, LEFT_BEHIND, WAKE];

/// The most waiters of a done effect that are woken at a time; the repair wakes the others.
const ALL_MAX: i64 = 1_000;

/// How many waiters of an effect that is free are woken at a time. More than one: some have ended, or
/// need an operator.
const FEW: i64 = 3;

/// The most names that one pass of a repair looks at.
const NAMES_MAX: i64 = 256;

/// Which waiters a settlement is of interest to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waking {
    /// All: none of them performs the effect.
    All,
    /// The oldest few: one of them performs it.
    Few,
}

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

/// The waiters of an effect that are woken, the oldest first. In a statement after the one that locks the effect's row, so that it
/// sees those that became waiters while that one waited for the lock.
pub(super) async fn of_effect(
    tx: &Transaction<'_>,
    effect: NamedEffectId,
    waking: Waking,
) -> Result<Vec<NamedEffectWaiter>, ReadError> {
    let limit = match waking {
        Waking::All => ALL_MAX,
        Waking::Few => FEW,
    };
    let rows = tx.query(LIST, &[effect.as_uuid(), &limit]).await?;
    Ok(rows.iter().map(read_waiter).collect())
}

/// Makes runs due that wait. Gives the waiters whose runs are due or gone, and those that are in a
/// worker's hands: their rows stay, and a repair wakes them.
pub async fn wake(
    cell: EveryCell<'_>,
    waiters: Vec<NamedEffectWaiter>,
) -> Result<(Vec<NamedEffectWaiter>, Vec<NamedEffectWaiter>), ReadError> {
    if waiters.is_empty() {
        return Ok((waiters, Vec::new()));
    }
    let runs: Vec<Uuid> = waiters.iter().map(|it| *it.run.as_uuid()).collect();
    let rows = cell.reader().await?.query(WAKE, &[&runs]).await?;
    let busy: HashSet<Uuid> = rows.iter().map(|row| row.get(0)).collect();
    let is_free = |it: &NamedEffectWaiter| !busy.contains(it.run.as_uuid());
    Ok(waiters.into_iter().partition(is_free))
}

/// Removes waiters of one effect whose runs were woken.
pub async fn woken(
    cell: SlotCell<'_>,
    effect: NamedEffectId,
    waiters: &[NamedEffectWaiter],
) -> Result<(), ReadError> {
    change(cell, WOKEN, effect, waiters).await
}

/// Puts waiters of one effect behind the others, whose runs could not be woken now.
pub async fn put_back(
    cell: SlotCell<'_>,
    effect: NamedEffectId,
    waiters: &[NamedEffectWaiter],
) -> Result<(), ReadError> {
    change(cell, PUT_BACK, effect, waiters).await
}

async fn change(
    cell: SlotCell<'_>,
    text: &'static str,
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
    cell.reader().await?.execute(text, &values).await?;
    Ok(())
}

/// Looks at a page of the names that runs wait for, from where the page before ended. Lists waiters of
/// those that are neither held nor in doubt, the oldest of each first, and says where the next page
/// begins; nothing where there is none.
pub async fn list_left_behind(
    cell: EveryCell<'_>,
    after: Option<NamedEffectId>,
) -> Result<(Vec<NamedEffectWaiter>, Option<NamedEffectId>), ReadError> {
    let after = after.map_or_else(Uuid::nil, |name| *name.as_uuid());
    let values: [&(dyn ToSql + Sync); 4] = [&after, &NAMES_MAX, &ALL_MAX, &FEW];
    let rows = cell.reader().await?.query(LEFT_BEHIND, &values).await?;
    let mut names: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
    names.dedup();
    let full = i64::try_from(names.len()).is_ok_and(|count| count == NAMES_MAX);
    let next = names.last().filter(|_| full);
    let left = rows
        .iter()
        .filter(|row| row.get::<_, Option<Uuid>>(1).is_some());
    Ok((
        left.map(read_waiter).collect(),
        next.copied().map(NamedEffectId::from_uuid),
    ))
}

fn read_waiter(row: &Row) -> NamedEffectWaiter {
    NamedEffectWaiter {
        effect: NamedEffectId::from_uuid(row.get(0)),
        run: RunId::from_uuid(row.get(1)),
        step: row.get(2),
        since: row.get(3),
    }
}
