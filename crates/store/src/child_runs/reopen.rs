//! Resuming child runs that have ended.

use semel_model::event::Event;
use semel_model::{RunId, SessionId};
use tokio_postgres::types::ToSql;

use super::ChildrenOf;
use crate::audit::{self, AuditEntry};
use crate::cell::{ReadError, SlotCell};
use crate::journal::to_text;

/// Resumes child runs that have ended, each from its own ledger, by the events `$1` of their journals.
/// A statement says only which of them it chooses.
macro_rules! reopen {
    ($comment:literal, $chosen:literal) => {
        concat!(
            $comment,
            "
    WITH present AS MATERIALIZED (SELECT moment() AS now),",
            $chosen,
            ",
    last AS MATERIALIZED (
        SELECT c.run_id, c.partition_date, max(j.seq) AS seq, max(j.epoch) AS epoch
          FROM chosen c JOIN journal j ON j.partition_date = c.partition_date AND j.run_id = c.run_id
         GROUP BY c.run_id, c.partition_date),
    opened AS (
        UPDATE child_runs p SET state = 'open', ended_at = NULL FROM last l WHERE p.run_id = l.run_id),
    active AS (
        UPDATE runs r
           SET state = 'active', ended_at = NULL, result = NULL, fault = NULL, fault_code = NULL
          FROM last l WHERE r.id = l.run_id),
    queued AS (
        INSERT INTO queue (run_id, due_at, epoch, seq, partition_date, namespace_id)
        SELECT l.run_id, p.now, l.epoch + 1, l.seq + 1, l.partition_date,
               (SELECT r.namespace_id FROM runs r WHERE r.id = l.run_id)
          FROM last l, present p),
    written AS (
        INSERT INTO journal (partition_date, run_id, seq, epoch, at, events)
        SELECT l.partition_date, l.run_id, l.seq + 1, l.epoch + 1, p.now, $1::text::json
          FROM last l, present p)
    SELECT run_id FROM last"
        )
    };
}

/// Only the holder of the parent may, so that none continues after the parent was stopped.
pub(super) const REOPEN: &str = reopen!(
    "/* commits alone: reopen children */",
    "
    held AS MATERIALIZED (
        SELECT 1 FROM queue
         WHERE run_id = $2 AND epoch = $6 AND holder IS NOT DISTINCT FROM $7 FOR UPDATE),
    chosen AS MATERIALIZED (
        SELECT p.run_id, r.partition_date
          FROM child_runs p JOIN runs r ON r.id = p.run_id
         WHERE p.parent_id = $2 AND p.step = $3 AND p.state::text = ANY ($4)
           AND EXISTS (SELECT 1 FROM held)
         ORDER BY p.index
         LIMIT $5
           FOR UPDATE OF p)"
);

/// Resumes one failed child run by itself, whatever happened to its parent; unless a later run has
/// the key of its outermost run, or may have it: that one reads what was done here.
pub(super) const REOPEN_ONE: &str = reopen!(
    "",
    "
    held AS MATERIALIZED (
        SELECT c.id FROM runs r JOIN claims c ON c.id = r.claim_id AND c.run_id = r.id
         WHERE r.id = $3 AND r.closed_at IS NULL AND c.expires_at IS NOT NULL
           FOR UPDATE OF c FOR SHARE OF r),
    chosen AS MATERIALIZED (
        SELECT p.run_id, r.partition_date
          FROM child_runs p JOIN runs r ON r.id = p.run_id
         WHERE p.run_id = $2 AND p.state = 'failed' AND EXISTS (SELECT 1 FROM held)
           FOR UPDATE OF p)"
);

/// Which child runs are resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReopenedChildren {
    /// Those that ended without success.
    Unsuccessful,
    /// Those that succeeded.
    Successful,
}

/// Resumes child runs that have ended, by an event of their journals; returns how many, up to a
/// limit.
pub async fn reopen(
    cell: SlotCell<'_>,
    of: ChildrenOf<'_>,
    which: ReopenedChildren,
    most: i64,
    event: &Event,
    (epoch, holder): (i64, SessionId),
) -> Result<i64, ReadError> {
    let states: &[&str] = match which {
        ReopenedChildren::Unsuccessful => &["failed", "cancelled"],
        ReopenedChildren::Successful => &["succeeded"],
    };
    let events = to_text([event]);
    let values: [&(dyn ToSql + Sync); 7] = [
        &events,
        of.parent.as_uuid(),
        &of.step,
        &states,
        &most,
        &epoch,
        holder.as_uuid(),
    ];
    let reopened = cell.reader().await?.query(REOPEN, &values).await?;
    Ok(reopened.len() as i64)
}

/// Resumes one failed child run of an outermost run. False if it did not fail, was resumed already,
/// or the outermost run has its key no more.
pub async fn reopen_one(
    cell: SlotCell<'_>,
    child: RunId,
    root: RunId,
    event: &Event,
    act: &AuditEntry,
) -> Result<bool, ReadError> {
    let events = to_text([event]);
    let values: [&(dyn ToSql + Sync); 3] = [&events, child.as_uuid(), root.as_uuid()];
    let opened = audit::query_opt(cell, REOPEN_ONE, &values, act).await?;
    Ok(opened.is_some())
}
