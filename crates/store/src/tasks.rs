//! The `tasks` table: work that programs outside take, and what they answered.
//!
//! The run opens a task with its own transition and withdraws it the same way. A worker claims,
//! renews and answers it; an answer also wakes the run, in the same commit. Only the API token that
//! made a claim renews and answers under it: tokens of claims are small numbers, and identities of
//! tasks can be computed, so neither says who asks. Locks on `queue` come
//! before locks on `tasks`; a claim takes locks on `tasks` alone and waits for none.
//!
//! Statements that name tasks write `state IS NOT DISTINCT FROM`, which fits no index: PostgreSQL
//! finds the rows by their identity, however few of that state the statistics know.
//!
//! Commit points: the claim, and the `COMMIT` of [`TaskAnswerBatch`].

use jiff::Timestamp;
use semel_model::task::TaskState;
use semel_model::{EffectId, RunId, SeededBug, Span, TokenId};
use serde_json::Value;
use tokio_postgres::Row;
use tokio_postgres::types::{Json, ToSql};
use uuid::Uuid;

use crate::cell::{EveryCell, ReadError, SlotCell};
use crate::wakes::wakes;

mod changes;
mod lost;
mod settling;
mod views;

pub use changes::TaskChange;
pub(crate) use changes::{DEFER, OPEN, REOPEN, Rows, WITHDRAW};
pub use lost::lose;
pub(crate) use settling::STATEMENTS as ANSWERS;
pub use settling::{SubmittedAnswer, TaskAnswerBatch, TaskAnswerResult, start_settling};
pub(crate) use views::STATEMENTS as VIEWS;
pub use views::{TaskFilter, TaskView, find, list};

// Crosses slots (V7): a queue holds tasks of all slots, and a request's earlier claim is found by its
// name. With a second cell, cells are asked in an order that the name gives; oldest first holds in each.

/// The oldest first; what another claims at this moment is passed over.
/// Whether the flow of a task's run was paused since the task was opened. Then its time may last longer
/// than `until` says, which its run moves when it wakes up: until then only a silent worker is lost.
/// Asked only of tasks whose time is nearly over.
macro_rules! stood_still {
    () => {
        "(SELECT 1
            FROM runs r
            JOIN releases l ON l.id = r.release_id
            JOIN flows f ON f.id = l.flow_id
           CROSS JOIN LATERAL (
                 SELECT 1 FROM pauses p
                  WHERE p.namespace_id = f.namespace_id AND p.kind = 'flow' AND p.name = f.name
                    AND p.resumed_at IS NULL
                  UNION ALL
                 SELECT 1 FROM pauses p
                  WHERE p.namespace_id = f.namespace_id AND p.kind = 'flow' AND p.name = f.name
                    AND p.resumed_at > t.opened_at) p
           WHERE r.id = t.run_id
           LIMIT 1) = 1"
    };
}

/// When a worker counts as lost that is silent from now on.
macro_rules! lease_end {
    ($lease:literal) => {
        concat!(
            "CASE WHEN t.until < (SELECT moment()) + make_interval(secs => coalesce(",
            $lease,
            ", t.lease_ms) / 1e3)
                     AND NOT coalesce(",
            stood_still!(),
            ", false)
                THEN t.until
                ELSE (SELECT moment()) + make_interval(secs => coalesce(",
            $lease,
            ", t.lease_ms) / 1e3) END"
        )
    };
}

const CLAIM: &str = concat!(
    "/* commits alone: task claim */
    WITH due AS (
        SELECT t.id, t.opened_at, octet_length(t.input::text) AS bytes
          FROM tasks t
         WHERE t.namespace_id = $1 AND t.queue = $2 AND t.state = 'open'
           AND (t.until IS NULL OR t.until > (SELECT moment()) OR ",
    stood_still!(),
    ")
         ORDER BY t.opened_at
         LIMIT $3
           FOR UPDATE SKIP LOCKED),
    measured AS (
        SELECT id, sum(bytes) OVER (ORDER BY opened_at, id ROWS UNBOUNDED PRECEDING) - bytes AS bytes_before
          FROM due)
    UPDATE tasks t
       SET state = 'held', token = t.token + 1, worker = $4, claim_id = $5,
           claimed_by = (t.claimed_by || $7::uuid)[greatest(cardinality(t.claimed_by) - 14, 1):],
           lease_until = ",
    lease_end!("$6"),
    "
     WHERE t.id = ANY (ARRAY(SELECT id FROM measured WHERE bytes_before < $8))
 RETURNING t.id, t.run_id, t.queue, t.step, t.attempt, t.token, t.lease_until, t.until,
           t.input::text, coalesce($6, t.lease_ms)"
);

/// What an earlier request of the same name claimed from the queue, whose sender may not have the answer.
/// A name is the namespace's: what another token claimed under it from another queue is not for this one.
const CLAIMED: &str = "
    SELECT t.id, t.run_id, t.queue, t.step, t.attempt, t.token, t.lease_until, t.until,
           t.input::text, coalesce($3, t.lease_ms)
      FROM tasks t
     WHERE t.claim_id = $2 AND t.state = 'held' AND t.namespace_id = $1 AND t.queue = $4
       AND t.claimed_by[cardinality(t.claimed_by)] = $5";

const RENEW: &str = concat!(
    "/* commits alone: task renew */
    UPDATE tasks t
       SET lease_until = ",
    lease_end!("$4"),
    "
     WHERE t.id = $2 AND t.namespace_id = $1 AND t.state IS NOT DISTINCT FROM 'held'
       AND t.token = $3 AND t.claimed_by[cardinality(t.claimed_by)] = $5
 RETURNING t.lease_until, coalesce((SELECT q.cancel FROM queue q WHERE q.run_id = t.run_id), true)"
);

const LOCK_RUNS: &str = "
    SELECT run_id FROM queue WHERE run_id = ANY ($1) ORDER BY run_id FOR UPDATE";

const LOOK: &str = "
    SELECT state::text, attempt, answer FROM tasks WHERE id = $1";

/// Wakes the runs of tasks that have an outcome: with the outcome, and in the commit in which a run
/// falls asleep again.
pub(crate) const HEAR: &str = concat!(
    "
    UPDATE queue q
       SET ",
    wakes!("(SELECT moment())"),
    ",
           stage = CASE WHEN q.holder IS NULL THEN 'ready' ELSE q.stage END
      FROM tasks t
     WHERE t.id = ANY ($1) AND t.state IN ('done', 'failed', 'lost') AND q.run_id = t.run_id
       AND (q.holder IS NOT NULL OR q.stage = 'waiting') AND (q.holder IS NULL OR NOT q.woken)"
);

const RUN: &str = "SELECT run_id FROM tasks WHERE namespace_id = $1 AND id = $2";

const QUEUE: &str = "SELECT queue FROM tasks WHERE namespace_id = $1 AND id = $2";

pub(crate) const STATEMENTS: &[&str] = &[
    OPEN,
    REOPEN,
    DEFER,
    WITHDRAW,
    CLAIM,
    CLAIMED,
    RENEW,
    LOCK_RUNS,
    lost::LEASES_OVER,
    lost::OVER,
    lost::LOSE,
    LOOK,
    HEAR,
    RUN,
    QUEUE,
];

/// The most tasks of one claim.
pub const CLAIM_MAX: u16 = 100;

/// How many bytes the inputs of one claim have, beyond its last task. The other tasks stay open.
pub const CLAIM_BYTES_MAX: usize = 1 << 20;

/// Who asks for work, and for which.
#[derive(Clone, Debug)]
pub struct TaskClaim {
    /// Whose tasks.
    pub namespace_id: i32,
    /// The API token that asks: nobody else renews and answers what it claims.
    pub caller: TokenId,
    /// The queue.
    pub queue: String,
    /// How many at the most.
    pub most: u16,
    /// What the worker calls itself.
    pub worker: Option<String>,
    /// The request's own name, where it has one: a repeat gets the same tasks.
    pub name: Option<Uuid>,
    /// How long the worker may be silent, where it says so.
    pub lease: Option<Span>,
}

/// A task in a worker's hands.
#[derive(Clone, Debug)]
pub struct ClaimedTask {
    /// The task: the effect's key.
    pub task: EffectId,
    /// Its run.
    pub run: RunId,
    /// The queue.
    pub queue: String,
    /// The step's path.
    pub step: String,
    /// The number of the attempt.
    pub attempt: i32,
    /// What every answer has to carry.
    pub token: i64,
    /// When the worker counts as lost.
    pub lease_until: Timestamp,
    /// When its time is over in all.
    pub until: Option<Timestamp>,
    /// What the worker gets, as JSON text.
    pub input: String,
    /// How long the worker may be silent.
    pub lease: Span,
}

/// Claims tasks, the oldest first: as many as the inputs leave room for, and one at least.
pub async fn claim(cell: EveryCell<'_>, claim: &TaskClaim) -> Result<Vec<ClaimedTask>, ReadError> {
    let client = cell.reader().await?;
    let lease = lease_ms(claim.lease);
    if let Some(name) = &claim.name {
        let values: [&(dyn ToSql + Sync); 5] = [
            &claim.namespace_id,
            name,
            &lease,
            &claim.queue,
            claim.caller.as_uuid(),
        ];
        let rows = client.query(CLAIMED, &values).await?;
        if !rows.is_empty() {
            return Ok(rows.iter().map(read_claimed).collect());
        }
    }
    let most = i64::from(claim.most.clamp(1, CLAIM_MAX));
    let bytes_max = CLAIM_BYTES_MAX as i64;
    let values: [&(dyn ToSql + Sync); 8] = [
        &claim.namespace_id,
        &claim.queue,
        &most,
        &claim.worker,
        &claim.name,
        &lease,
        claim.caller.as_uuid(),
        &bytes_max,
    ];
    let rows = client.query(CLAIM, &values).await?;
    Ok(rows.iter().map(read_claimed).collect())
}

fn lease_ms(lease: Option<Span>) -> Option<i64> {
    lease.map(|lease| i64::try_from(lease.as_millis()).unwrap_or(i64::MAX))
}

fn read_claimed(row: &Row) -> ClaimedTask {
    let lease: i64 = row.get(9);
    ClaimedTask {
        task: EffectId::from_uuid(row.get(0)),
        run: RunId::from_uuid(row.get(1)),
        queue: row.get(2),
        step: row.get(3),
        attempt: row.get(4),
        token: row.get(5),
        lease_until: row.get(6),
        until: row.get(7),
        input: row.get(8),
        lease: Span::from_millis(lease.unsigned_abs()),
    }
}

/// What a worker says about a claim of its own.
#[derive(Clone, Copy, Debug)]
pub struct TaskHold {
    /// Whose task.
    pub namespace_id: i32,
    /// The task.
    pub task: EffectId,
    /// The token of the claim.
    pub token: i64,
    /// The API token that says it.
    pub caller: TokenId,
}

/// A lease that was renewed.
#[derive(Clone, Copy, Debug)]
pub struct Renewed {
    /// When the worker counts as lost.
    pub lease_until: Timestamp,
    /// Whether an operator asked for the run's end.
    pub cancel: bool,
}

/// Renews the lease of the latest claim; nothing where it is another's or over.
pub async fn renew(
    cell: SlotCell<'_>,
    hold: &TaskHold,
    lease: Option<Span>,
) -> Result<Option<Renewed>, ReadError> {
    let lease = lease_ms(lease);
    let client = cell.reader().await?;
    let values: [&(dyn ToSql + Sync); 5] = [
        &hold.namespace_id,
        hold.task.as_uuid(),
        &hold.token,
        &lease,
        hold.caller.as_uuid(),
    ];
    let right = "AND t.claimed_by[cardinality(t.claimed_by)] = $5";
    let text = SeededBug::TaskCallerIgnored.in_text(RENEW, right, "AND $5::uuid IS NOT NULL");
    let row = client.query_opt(text, &values).await?;
    Ok(row.map(|row| Renewed {
        lease_until: row.get(0),
        cancel: row.get(1),
    }))
}

/// What a run sees of its task.
#[derive(Clone, Debug)]
pub struct TaskSnapshot {
    /// Its state.
    pub state: TaskState,
    /// The attempt that this is about.
    pub attempt: i32,
    /// What the worker answered.
    pub answer: Option<Value>,
}

/// Looks at a task for its run; a lease that is over by now is seen as such. A worker that looks
/// may have lost the run to another one, which is then woken.
pub async fn look(cell: SlotCell<'_>, task: EffectId) -> Result<Option<TaskSnapshot>, ReadError> {
    let mut client = cell.reader().await?;
    if let Some(over) = client.query_opt(lost::OVER, &[task.as_uuid()]).await? {
        let (ids, runs) = (vec![*task.as_uuid()], vec![over.get::<_, Uuid>(0)]);
        // The answer and its wake are one commit: a process that dies between them leaves a run asleep.
        let tx = client.transaction().await?;
        tx.query(LOCK_RUNS, &[&runs]).await?;
        tx.execute(lost::LOSE, &[&ids]).await?;
        tx.execute(HEAR, &[&ids]).await?;
        tx.commit().await?;
    }
    let row = client.query_opt(LOOK, &[task.as_uuid()]).await?;
    Ok(row.map(|row| TaskSnapshot {
        state: read_state(row.get(0)),
        attempt: row.get(1),
        answer: row.get::<_, Option<Json<Value>>>(2).map(|Json(it)| it),
    }))
}

/// Looks up the run of a task.
pub async fn find_run(
    cell: SlotCell<'_>,
    namespace_id: i32,
    task: EffectId,
) -> Result<Option<RunId>, ReadError> {
    let client = cell.reader().await?;
    let row = client
        .query_opt(RUN, &[&namespace_id, task.as_uuid()])
        .await?;
    Ok(row.map(|row| RunId::from_uuid(row.get(0))))
}

/// Looks up the queue of a task, which never changes.
pub async fn find_queue(
    cell: SlotCell<'_>,
    namespace_id: i32,
    task: EffectId,
) -> Result<Option<String>, ReadError> {
    let client = cell.reader().await?;
    let row = client
        .query_opt(QUEUE, &[&namespace_id, task.as_uuid()])
        .await?;
    Ok(row.map(|row| row.get(0)))
}

pub(crate) fn read_state(text: &str) -> TaskState {
    match text.parse() {
        Ok(state) => state,
        Err(_) => unreachable!("the record has no task state {text}"),
    }
}
