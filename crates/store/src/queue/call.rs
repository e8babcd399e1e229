//! Calling runs that wait: to a gate that has something to say, and to the front of the line.

use jiff::Timestamp;
use semel_model::RunId;
use semel_model::gate::Summons;
use uuid::Uuid;

use crate::cell::{Cell, ReadError};

/// Whoever holds a run looks at the gate again before the run sleeps.
pub(super) const SUMMON: &str = "
    UPDATE queue q
       SET due_at = least(q.due_at, t.at),
           stage = CASE WHEN t.at <= moment() THEN 'ready' ELSE q.stage END
      FROM unnest($1::uuid[], $2::timestamptz[]) AS t (run_id, at)
     WHERE q.run_id = t.run_id AND q.holder IS NULL AND q.due_at > t.at";

/// Only a run that has not begun: what waits for a timer is not due sooner.
pub(super) const HEAD_START: &str = "
    UPDATE queue
       SET due_at = due_at - make_interval(secs => $2)
     WHERE run_id = $1 AND holder IS NULL AND seq = 1 AND stage = 'ready'";

/// Has runs look at their gate, each at its time, unless somebody holds them.
pub async fn summon(cell: &Cell, summons: &[Summons]) -> Result<(), ReadError> {
    let runs: Vec<Uuid> = summons.iter().map(|it| *it.run.as_uuid()).collect();
    let times: Vec<Timestamp> = summons.iter().map(|it| it.at).collect();
    let client = cell.reader().await?;
    let statement = client.prepare_cached(SUMMON).await?;
    client.execute(&statement, &[&runs, &times]).await?;
    Ok(())
}

/// Moves a run that waits to begin forward or, where it is negative, back among those that are due.
pub async fn give_head_start(cell: &Cell, run: RunId, secs: f64) -> Result<(), ReadError> {
    let client = cell.reader().await?;
    let statement = client.prepare_cached(HEAD_START).await?;
    client.execute(&statement, &[run.as_uuid(), &secs]).await?;
    Ok(())
}
