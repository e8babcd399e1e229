//! Ticks as the API shows them, and for how long.

use jiff::Timestamp;
use semel_model::{RunId, ScheduleId};
use tokio_postgres::Row;
use uuid::Uuid;

use super::TickView;
use super::rows::read_tick;
use crate::cell::{EveryCell, ReadError, SlotCell};

pub(super) const TICKS: &str = "
    SELECT nominal, verdict::text, last, instants, reason, run_id, fired_by, decided_at
      FROM ticks
     WHERE schedule_id = $1 AND nominal < $2
     ORDER BY nominal DESC, verdict
     LIMIT $3";

pub(super) const FIND_FIRED: &str = "
    SELECT run_id FROM ticks WHERE schedule_id = $1 AND nominal = $2 AND verdict = 'fired'";

pub(super) const LATEST: &str = "
    SELECT s.id, t.nominal, t.verdict, t.last, t.instants, t.reason, t.run_id, t.fired_by,
           t.decided_at
      FROM unnest($1::uuid[]) AS s (id)
     CROSS JOIN LATERAL (
           SELECT nominal, verdict::text, last, instants, reason, run_id, fired_by, decided_at
             FROM ticks
            WHERE schedule_id = s.id
            ORDER BY nominal DESC, verdict
            LIMIT 1) t";

pub(super) const FORGET: &str = "
    DELETE FROM ticks
     WHERE (schedule_id, nominal, verdict) IN
           (SELECT schedule_id, nominal, verdict FROM ticks
             WHERE decided_at < (SELECT moment()) - make_interval(secs => $1)
             ORDER BY decided_at LIMIT $2 FOR UPDATE SKIP LOCKED)";

/// The most rows of ticks that one statement forgets.
const FORGET_MAX: i64 = 5_000;

/// The run of an instant that was fired.
pub async fn find_fired(
    cell: SlotCell<'_>,
    id: ScheduleId,
    nominal: Timestamp,
) -> Result<Option<RunId>, ReadError> {
    let client = cell.reader().await?;
    let row = client
        .query_opt(FIND_FIRED, &[id.as_uuid(), &nominal])
        .await?;
    Ok(row
        .and_then(|row| row.get::<_, Option<Uuid>>(0))
        .map(RunId::from_uuid))
}

/// Lists what became of the instants of a schedule, the latest first.
pub async fn list_ticks(
    cell: SlotCell<'_>,
    id: ScheduleId,
    before: Option<Timestamp>,
    limit: i64,
) -> Result<Vec<TickView>, ReadError> {
    let client = cell.reader().await?;
    let rows = client
        .query(
            TICKS,
            &[id.as_uuid(), &before.unwrap_or(Timestamp::MAX), &limit],
        )
        .await?;
    Ok(rows.iter().map(|row| read_tick(row, 0)).collect())
}

/// The latest tick of each schedule that has one.
pub async fn list_latest(
    cell: EveryCell<'_>,
    ids: &[ScheduleId],
) -> Result<Vec<(ScheduleId, TickView)>, ReadError> {
    let ids: Vec<Uuid> = ids.iter().map(|id| *id.as_uuid()).collect();
    let rows = cell.reader().await?.query(LATEST, &[&ids]).await?;
    let read = |row: &Row| (ScheduleId::from_uuid(row.get(0)), read_tick(row, 1));
    Ok(rows.iter().map(read).collect())
}

/// Forgets ticks that were decided longer ago than that. Gives how many.
pub async fn forget(cell: EveryCell<'_>, age: semel_model::Span) -> Result<u64, ReadError> {
    let secs = age.as_secs_f64();
    let client = cell.reader().await?;
    Ok(client.execute(FORGET, &[&secs, &FORGET_MAX]).await?)
}
