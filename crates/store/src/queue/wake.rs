//! Waking runs that wait: for a gate that has decided, or to move them to the front of the line.

use jiff::Timestamp;
use semel_model::RunId;
use semel_model::gate::WakeUp;
use uuid::Uuid;

use crate::cell::{EveryCell, ReadError, SlotCell};

/// A worker that holds a run looks at the gate again before the run sleeps. Rows are locked in the
/// order of identities first.
pub(super) const WAKE_AT_GATE: &str = "
    WITH called AS MATERIALIZED (
        SELECT run_id FROM queue
         WHERE run_id = ANY ($1) AND num_nulls(holder) = 1
         ORDER BY run_id
           FOR UPDATE)
    UPDATE queue q
       SET due_at = least(q.due_at, t.at),
           stage = CASE WHEN t.at <= moment() THEN 'ready' ELSE q.stage END
      FROM unnest($1::uuid[], $2::timestamptz[]) AS t (run_id, at)
     WHERE q.run_id = t.run_id AND q.run_id = ANY (ARRAY(SELECT run_id FROM called))
       AND num_nulls(q.holder) = 1 AND q.due_at > t.at";

/// Only a run that has not begun: what waits for a timer is not due sooner.
pub(super) const HEAD_START: &str = "
    UPDATE queue
       SET due_at = due_at - make_interval(secs => $2)
     WHERE run_id = $1 AND holder IS NULL AND seq = 1 AND stage = 'ready'";

/// Has runs look at their gate, each at its time, unless a worker holds them.
pub async fn wake_at_gate(cell: EveryCell<'_>, summons: &[WakeUp]) -> Result<(), ReadError> {
    let runs: Vec<Uuid> = summons.iter().map(|it| *it.run.as_uuid()).collect();
    let times: Vec<Timestamp> = summons.iter().map(|it| it.at).collect();
    let client = cell.reader().await?;
    client.execute(WAKE_AT_GATE, &[&runs, &times]).await?;
    Ok(())
}

/// Moves a run that waits to begin forward or, where it is negative, back among those that are due.
pub async fn give_head_start(cell: SlotCell<'_>, run: RunId, secs: f64) -> Result<(), ReadError> {
    let client = cell.reader().await?;
    client.execute(HEAD_START, &[run.as_uuid(), &secs]).await?;
    Ok(())
}
