//! Erasing what senders, destinations, workers and people said in the runs of a key. That the runs took
//! place, what they did, and under which keys stays.
//!
//! The runs are closed first, under the lock of their claim: from then on none of them is resumed
//! or replayed. Their rows are erased after that, a batch at a time. The last commit says that they
//! are erased; a repeat completes what a crash or an error cut short.
//!
//! ```text
//! close, "begun" ══▶ erase ══▶ erase ══▶ … ══▶ erased, "done"
//! ```

use jiff::Timestamp;
use jiff::civil::Date;
use semel_model::event::Event;
use semel_model::{ClaimId, NamedEffectId, ResourceRef, RunId};
use serde_json::{Value, json};
use tokio_postgres::types::{Json, ToSql};
use uuid::Uuid;

use super::runs::{CLOSE, TREE};
use crate::audit::{self, AuditEntry};
use crate::cell::{EveryCell, ReadError, SlotCell};
use crate::journal::to_text;
use crate::resources::to_ref;

/// The claim of the outermost run that a run belongs to, and its key.
const CLAIM: &str = "
    WITH RECURSIVE up AS (
        SELECT id, parent_id, claim_id, key FROM runs WHERE id = $1 AND namespace_id = $2
        UNION ALL
        SELECT r.id, r.parent_id, r.claim_id, r.key FROM up u JOIN runs r ON r.id = u.parent_id)
    SELECT claim_id, key FROM up WHERE parent_id IS NULL";

/// A run that a claim made and that is still here.
const RUN_OF: &str = "
    SELECT id FROM runs
     WHERE id BETWEEN $1 AND $2 AND claim_id = $3 AND namespace_id = $4 AND parent_id IS NULL
     LIMIT 1";

const LOCK: &str = "SELECT 1 FROM claims WHERE id = $1 FOR UPDATE";

/// The runs of a key, and whether anything of it is open. A run that was cancelled between two attempts
/// leaves its effect as it is: nobody tries that again.
const RUNS: &str = concat!(
    "
    SELECT r.id,
           ",
    is_open!(),
    "
           OR EXISTS (SELECT FROM effects e
                       WHERE e.partition_date = r.partition_date AND e.id BETWEEN k.low AND k.high
                         AND e.state = 'in_doubt')
      FROM (VALUES ($1::uuid, $2::uuid, $3::uuid)) AS k (claim_id, low, high)
      JOIN runs r ON r.id BETWEEN k.low AND k.high AND r.claim_id = k.claim_id
       FOR UPDATE OF r"
);

/// What people and programs named stays: keys, names of steps and queues, what the destination calls what
/// was made. The outermost runs are erased once everything of their key is.
const ERASE: &str = "/* commits alone: erase runs */
    WITH gone AS MATERIALIZED (
        SELECT *
          FROM unnest($1::uuid[], $2::date[], $3::text[], $4::uuid[], $5::uuid[], $6::uuid[], $7::uuid[])
            AS t (run_id, partition_date, events, low, high, wait_low, wait_high)),
    dated AS MATERIALIZED (SELECT DISTINCT partition_date, low, high FROM gone),
    ranges AS MATERIALIZED (SELECT DISTINCT low, high FROM gone),
    last AS MATERIALIZED (
        SELECT g.run_id, g.partition_date, g.events,
               (SELECT max(j.seq) FROM journal j
                 WHERE j.partition_date = g.partition_date AND j.run_id = g.run_id) AS seq
          FROM gone g),
    rewritten AS (
        UPDATE journal j SET events = l.events::json
          FROM last l
         WHERE j.partition_date = l.partition_date AND j.run_id = l.run_id AND j.seq = l.seq),
    lines AS (
        DELETE FROM journal j USING last l
         WHERE j.partition_date = l.partition_date AND j.run_id = l.run_id AND j.seq < l.seq),
    ledger AS (
        UPDATE effects e
           SET note = CASE WHEN e.attempt = 0 THEN e.note
                           WHEN starts_with(e.note, 'given up while in doubt') THEN 'given up while in doubt' END
          FROM dated d
         WHERE e.partition_date = d.partition_date AND e.id BETWEEN d.low AND d.high
           AND e.run_id IN (SELECT run_id FROM gone) AND e.note IS NOT NULL),
    late AS (DELETE FROM late_responses l USING gone g WHERE l.run_id = g.run_id),
    waited AS (
        UPDATE waits w SET payload = '\"erased\"'
          FROM gone g
         WHERE w.run_id = g.run_id AND w.payload IS NOT NULL),
    asked AS (
        UPDATE approvals a
           SET shown = '\"erased\"', digest = 'erased', comment = CASE WHEN a.comment IS NOT NULL THEN 'erased' END
          FROM gone g
         WHERE a.id BETWEEN g.wait_low AND g.wait_high AND a.run_id = g.run_id),
    worked AS (
        UPDATE tasks t
           SET input = '\"erased\"', answer = CASE WHEN t.answer IS NOT NULL THEN '\"erased\"'::json END
          FROM ranges k
         WHERE t.id BETWEEN k.low AND k.high AND t.run_id IN (SELECT run_id FROM gone)),
    repeated AS (
        UPDATE duplicates d
           SET payload = CASE WHEN d.payload IS NOT NULL THEN '\"erased\"'::json END,
               arrival = CASE WHEN d.arrival IS NOT NULL THEN '\"erased\"'::json END,
               decision = CASE WHEN d.verdict = 'held' THEN coalesce(d.decision, 'dismissed') END,
               decided_at = CASE WHEN d.verdict = 'held' THEN coalesce(d.decided_at, moment()) END,
               decided_by = CASE WHEN d.verdict = 'held' THEN coalesce(d.decided_by, 'erased') END
          FROM gone g
         WHERE d.run_id = g.run_id),
    items AS (
        UPDATE child_runs c SET item = '\"erased\"'
          FROM gone g
         WHERE c.run_id = g.run_id AND c.item IS NOT NULL),
    recorded AS (
        UPDATE runs r
           SET result = CASE WHEN r.result IS NOT NULL THEN '\"erased\"'::json END,
               fault = CASE WHEN r.fault IS NOT NULL
                            THEN json_build_object('code', r.fault_code, 'message', 'erased',
                                                   'retryable', false) END,
               erased_at = CASE WHEN r.parent_id IS NOT NULL
                                THEN coalesce(r.erased_at, moment()) ELSE r.erased_at END
          FROM gone g
         WHERE r.id = g.run_id
     RETURNING 1)
    SELECT count(*) FROM recorded";

/// Marks the outermost runs of a key as erased, and drops responses that came late while they were being erased. After
/// this commit such responses are refused.
const ERASED: &str = "
    WITH late AS (DELETE FROM late_responses WHERE run_id = ANY ($1))
    UPDATE runs SET erased_at = coalesce(erased_at, moment()) WHERE id = ANY ($1)";

/// What a run of another slot left of a named effect that it performed.
const NAMED: &str = "
    SELECT n.fault FROM named_effects n
     WHERE n.id = $1 AND n.holder_run = $2 AND n.state IN ('done', 'failed', 'in_doubt', 'undoing')
       FOR UPDATE";

const ERASE_NAMED: &str = "
    UPDATE named_effects n
       SET result = CASE WHEN n.result IS NOT NULL THEN '\"erased\"'::json END,
           fault = $3, note = NULL
     WHERE n.id = $1 AND n.holder_run = $2 AND n.state IN ('done', 'failed', 'in_doubt', 'undoing')";

/// The resources that these runs kept, and no other run.
const STORED: &str = "SELECT digest FROM resources WHERE run_id = ANY ($1)";

/// What lies in no slot of the run's.
const ERASE_ELSEWHERE: &str = "
    WITH stale AS (
        UPDATE stale_deliveries s SET payload = '\"erased\"' WHERE s.namespace_id = $1 AND s.key = $2),
    answers AS (DELETE FROM llm_answers a WHERE a.run_id = ANY ($3))
    DELETE FROM resources WHERE run_id = ANY ($3)";

/// The time, and events of a key that are under way: not dispatched yet, still reaching waits, or due to a webhook.
const UNDER_WAY: &str = "
    SELECT moment(), (SELECT count(*) FROM outbox WHERE id BETWEEN $1 AND $2 AND namespace_id = $3)
           + (SELECT count(*) FROM broadcasts WHERE event_id BETWEEN $1 AND $2 AND namespace_id = $3)
           + (SELECT count(*) FROM webhook_deliveries
               WHERE event_id BETWEEN $1 AND $2 AND namespace_id = $3 AND state = 'due')";

pub(crate) const STATEMENTS: &[&str] = &[
    CLAIM,
    RUN_OF,
    LOCK,
    RUNS,
    ERASE,
    ERASED,
    NAMED,
    ERASE_NAMED,
    STORED,
    ERASE_ELSEWHERE,
    UNDER_WAY,
];

/// The most runs of one key that are erased, with their child runs: all of them are listed in memory.
pub const ERASED_FAMILY_MAX: usize = 4_000_000;

/// What marking the runs of a key found.
#[derive(Debug)]
pub enum Marked {
    /// They are closed, and none of them is resumed or replayed any more.
    Runs(Family),
    /// There is no such run.
    Unknown,
    /// One has not ended, or something of it is in doubt or waits for an operator.
    Open,
    /// There are more than [`ERASED_FAMILY_MAX`].
    TooMany,
}

/// The runs of a key with their child runs.
#[derive(Debug)]
pub struct Family {
    /// Each run, and the partition of its journal.
    pub runs: Vec<(RunId, Date)>,
    /// Those that are no child runs.
    pub roots: Vec<RunId>,
    /// Their claim.
    pub claim: ClaimId,
    /// Their key.
    pub key: Vec<u8>,
    /// When they were closed: all of them had ended.
    pub marked_at: Timestamp,
    /// How many of their events are not dispatched yet, or still reach waits, and how many deliveries of them are due.
    pub events_under_way: u64,
}

/// What stays of a run.
#[derive(Clone, Debug)]
pub struct ErasedRun {
    /// The run.
    pub run: RunId,
    /// The partition of its journal.
    pub partition_date: Date,
    /// The events that its journal keeps.
    pub events: Vec<Event>,
}

/// Closes the runs of a run's key, and records who asked for it: from now on none of them is resumed
/// or replayed. Without an act they are only looked at.
pub async fn mark(
    cell: SlotCell<'_>,
    namespace_id: i32,
    run: RunId,
    act: Option<&AuditEntry>,
) -> Result<Marked, ReadError> {
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    let Some(row) = tx.query_opt(CLAIM, &[run.as_uuid(), &namespace_id]).await? else {
        return Ok(Marked::Unknown);
    };
    let (claim, key): (Uuid, Vec<u8>) = (row.get(0), row.get(1));
    tx.query_opt(LOCK, &[&claim]).await?;
    let (low, high) = run.key_range();
    let rows = tx.query(RUNS, &[&claim, &low, &high]).await?;
    if rows.iter().any(|row| row.get(1)) {
        return Ok(Marked::Open);
    }
    let roots: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
    let limit = ERASED_FAMILY_MAX as i64 + 1;
    let tree = tx.query(TREE, &[&roots, &limit]).await?;
    if tree.len() > ERASED_FAMILY_MAX {
        return Ok(Marked::TooMany);
    }
    let dated = |row: &tokio_postgres::Row| {
        let date: Option<Date> = row.get(1);
        Some((RunId::from_uuid(row.get(0)), date?))
    };
    let runs = tree.iter().filter_map(dated).collect();
    let values: [&(dyn ToSql + Sync); 3] = [&low, &high, &namespace_id];
    let row = tx.query_one(UNDER_WAY, &values).await?;
    let (marked_at, events_under_way): (Timestamp, i64) = (row.get(0), row.get(1));
    if let Some(act) = act {
        tx.execute(CLOSE, &[&roots]).await?;
        audit::append(&tx, act).await?;
    }
    tx.commit().await?;
    Ok(Marked::Runs(Family {
        runs,
        roots: roots.into_iter().map(RunId::from_uuid).collect(),
        claim: ClaimId::from_uuid(claim),
        key,
        marked_at,
        events_under_way: events_under_way.unsigned_abs(),
    }))
}

/// A run of a claim that is still here, where others of it are archived.
pub async fn find_run_of(
    cell: SlotCell<'_>,
    namespace_id: i32,
    claim: ClaimId,
) -> Result<Option<RunId>, ReadError> {
    let (low, high) = RunId::from_uuid(*claim.as_uuid()).key_range();
    let values: [&(dyn ToSql + Sync); 4] = [&low, &high, claim.as_uuid(), &namespace_id];
    let row = cell.reader().await?.query_opt(RUN_OF, &values).await?;
    Ok(row.map(|row| RunId::from_uuid(row.get(0))))
}

/// Erases what was said in some runs of a key.
pub async fn erase(cell: SlotCell<'_>, runs: &[ErasedRun]) -> Result<(), ReadError> {
    let ids: Vec<Uuid> = runs.iter().map(|it| *it.run.as_uuid()).collect();
    let dates: Vec<Date> = runs.iter().map(|it| it.partition_date).collect();
    let events: Vec<String> = runs.iter().map(|it| to_text(&it.events)).collect();
    let ranges = |range: fn(&RunId) -> (Uuid, Uuid)| -> (Vec<Uuid>, Vec<Uuid>) {
        runs.iter().map(|it| range(&it.run)).unzip()
    };
    let (low, high) = ranges(RunId::key_range);
    let (wait_low, wait_high) = ranges(RunId::wait_range);
    let values: [&(dyn ToSql + Sync); 7] =
        [&ids, &dates, &events, &low, &high, &wait_low, &wait_high];
    cell.reader().await?.query_one(ERASE, &values).await?;
    Ok(())
}

/// Says that runs are erased, and records who asked for it: the last commit of an erasure, once
/// nothing is left that it reaches. Runs that were archived meanwhile say it in their file.
pub async fn complete(
    cell: SlotCell<'_>,
    roots: &[RunId],
    act: &AuditEntry,
) -> Result<(), ReadError> {
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    tx.execute(ERASED, &[&ids_of(roots)]).await?;
    audit::append(&tx, act).await?;
    tx.commit().await?;
    Ok(())
}

/// Erases what a run said of a named effect that it performed.
pub async fn erase_named(
    cell: SlotCell<'_>,
    name: NamedEffectId,
    run: RunId,
) -> Result<(), ReadError> {
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    let of: [&(dyn ToSql + Sync); 2] = [name.as_uuid(), run.as_uuid()];
    let Some(row) = tx.query_opt(NAMED, &of).await? else {
        return Ok(());
    };
    let fault: Option<Json<Value>> = row.get(0);
    let fault = fault.map(|Json(fault)| {
        let code = &fault["code"];
        Json(json!({ "code": code, "message": "erased", "retryable": false }))
    });
    let values: [&(dyn ToSql + Sync); 3] = [name.as_uuid(), run.as_uuid(), &fault];
    tx.execute(ERASE_NAMED, &values).await?;
    tx.commit().await?;
    Ok(())
}

/// The resources that runs kept, and no other run: their bytes go before their rows do.
pub async fn list_stored(
    cell: EveryCell<'_>,
    runs: &[RunId],
) -> Result<Vec<ResourceRef>, ReadError> {
    let client = cell.reader().await?;
    let rows = client.query(STORED, &[&ids_of(runs)]).await?;
    Ok(rows.iter().filter_map(|row| to_ref(row.get(0))).collect())
}

/// Erases what is kept of runs apart from them: deliveries of their key that were too old, answers of
/// language models, resources.
pub async fn erase_elsewhere(
    cell: EveryCell<'_>,
    namespace_id: i32,
    key: &[u8],
    runs: &[RunId],
) -> Result<(), ReadError> {
    let client = cell.reader().await?;
    client
        .execute(ERASE_ELSEWHERE, &[&namespace_id, &key, &ids_of(runs)])
        .await?;
    Ok(())
}

fn ids_of(runs: &[RunId]) -> Vec<Uuid> {
    runs.iter().map(|run| *run.as_uuid()).collect()
}
