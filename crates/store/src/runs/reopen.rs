//! Resuming a failed run.

use semel_model::event::Event;
use semel_model::{RunId, Span};
use tokio_postgres::types::ToSql;

use super::STATES;
use crate::audit::{self, AuditEntry};
use crate::cell::{ReadError, SlotCell};
use crate::journal::to_text;

/// Resumes a failed run: its record, its queue entry, the row of its journal that says so, and the
/// operator who asked for it, if there is one. Of several requests one wins, by the record's row. A
/// run whose journal is gone stays as it is: there would be nothing to resume from.
///
/// Only the run that its claim names is resumed, and it holds the key again if the key was free: a
/// key never has two active runs. The claim is locked first, in the same order as when a key is
/// freed.
macro_rules! reopen {
    ($states:literal) => {
        concat!(
            "/* commits alone: reopen */
    WITH present AS MATERIALIZED (SELECT moment() AS now),
    claimed AS MATERIALIZED (
        SELECT c.id, r.id AS run_id, r.partition_date
          FROM runs r
          JOIN claims c ON c.id = r.claim_id AND c.run_id = r.id
         WHERE r.id = $1 AND r.closed_at IS NULL AND r.state IN (",
            $states,
            ")
           FOR UPDATE OF c FOR SHARE OF r),
    last AS MATERIALIZED (
        SELECT h.run_id, h.partition_date, max(j.seq) AS seq, max(j.epoch) AS epoch
          FROM claimed h JOIN journal j ON j.partition_date = h.partition_date AND j.run_id = h.run_id
         GROUP BY h.run_id, h.partition_date),
    active AS (
        UPDATE runs r
           SET state = 'active', ended_at = NULL, result = NULL, fault = NULL, fault_code = NULL
          FROM last l
         WHERE r.id = l.run_id AND r.state IN (",
            $states,
            ")
     RETURNING l.run_id, l.partition_date, l.seq, l.epoch, r.namespace_id),
    held AS (
        UPDATE claims c
           SET expires_at = p.now + make_interval(secs => $3), counted_from = p.now, dropped_at = NULL
          FROM claimed h, active a, present p
         WHERE c.id = h.id AND a.run_id = h.run_id AND c.expires_at IS NULL),
    queued AS (
        INSERT INTO queue (run_id, due_at, epoch, seq, partition_date, namespace_id)
        SELECT a.run_id, p.now, a.epoch + 1, a.seq + 1, a.partition_date, a.namespace_id
          FROM active a, present p),
    written AS (
        INSERT INTO journal (partition_date, run_id, seq, epoch, at, events)
        SELECT a.partition_date, a.run_id, a.seq + 1, a.epoch + 1, p.now, $2::text::json
          FROM active a, present p)
    SELECT count(*) FROM active"
        )
    };
}

pub(super) const REOPEN: &str = reopen!("'failed'");

/// As [`REOPEN`], of a run that ended in whatever way: one step of it is performed.
pub(super) const REOPEN_FOR_STEP: &str = reopen!("'succeeded', 'failed', 'cancelled'");

/// Whether the claim of a run still names it.
pub(super) const NAMED: &str = "
    SELECT 1 FROM runs r JOIN claims c ON c.id = r.claim_id AND c.run_id = r.id WHERE r.id = $1";

/// What happened to a request to resume a failed run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReopenResult {
    /// It is active again.
    Reopened,
    /// It has not failed, or another request was first.
    NotFailed,
    /// It failed, and another run has its key.
    KeyTaken,
    /// It failed, and its journal is no longer kept.
    HistoryGone,
}

/// Resumes a failed run, with the events that say so. If an operator asks for it, the act is
/// recorded in the same commit; an act that a job has done before is not done again. A key that was
/// free is held again, for at least `keep`.
pub async fn reopen(
    cell: SlotCell<'_>,
    run: RunId,
    events: &[Event],
    act: Option<&AuditEntry>,
    keep: Span,
) -> Result<ReopenResult, ReadError> {
    let events = to_text(events);
    let secs = keep.as_secs_f64();
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    let values: [&(dyn ToSql + Sync); 3] = [run.as_uuid(), &events, &secs];
    let row = tx.query_one(REOPEN, &values).await?;
    let reopening = match row.get::<_, i64>(0) {
        1 => ReopenResult::Reopened,
        // Read in a statement of its own, which sees the request that was first.
        _ => match tx
            .query_opt(STATES, &[&[*run.as_uuid()].as_slice()])
            .await?
        {
            Some(row) if row.get::<_, &str>(1) == "failed" => {
                match tx.query_opt(NAMED, &[run.as_uuid()]).await? {
                    Some(_) => ReopenResult::HistoryGone,
                    None => ReopenResult::KeyTaken,
                }
            }
            Some(_) | None => ReopenResult::NotFailed,
        },
    };
    if let (ReopenResult::Reopened, Some(act)) = (reopening, act) {
        // The run's row is locked by now: whoever did the same act before has committed it.
        if audit::is_done_within(&tx, act).await? {
            tx.rollback().await?;
            return Ok(ReopenResult::NotFailed);
        }
        audit::append(&tx, act).await?;
    }
    tx.commit().await?;
    Ok(reopening)
}

/// Lets an ended run perform one step more, with the event that says which; the act is recorded in
/// the same commit. False if the run has not ended, another run has its key, or its journal is gone.
pub async fn reopen_for_step(
    cell: SlotCell<'_>,
    run: RunId,
    event: &Event,
    act: &AuditEntry,
    keep: Span,
) -> Result<bool, ReadError> {
    let events = to_text([event]);
    let secs = keep.as_secs_f64();
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    let values: [&(dyn ToSql + Sync); 3] = [run.as_uuid(), &events, &secs];
    let row = tx.query_one(REOPEN_FOR_STEP, &values).await?;
    let is_open = row.get::<_, i64>(0) == 1;
    if is_open {
        audit::append(&tx, act).await?;
    }
    tx.commit().await?;
    Ok(is_open)
}
