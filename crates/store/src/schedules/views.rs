//! Schedules, as far as they are decided.

use semel_model::ScheduleId;

use super::Schedule;
use super::rows::read_schedule;
use crate::cell::{EveryCell, ReadError, SlotCell};

macro_rules! select {
    ($condition:literal) => {
        concat!(
            "
    SELECT id, namespace_id, flow, release_id, version, zones, decided_to, due_at, paused_at,
           paused_by, moment()
      FROM schedules",
            $condition
        )
    };
}

pub(super) const LIST: &str = select!("");
pub(super) const LIST_OF_NAMESPACE: &str = select!(" WHERE namespace_id = $1");
pub(super) const FIND: &str = select!(" WHERE id = $1");

/// Lists the schedules of all namespaces.
pub async fn list(cell: EveryCell<'_>) -> Result<Vec<Schedule>, ReadError> {
    let rows = cell.reader().await?.query(LIST, &[]).await?;
    Ok(rows.iter().map(read_schedule).collect())
}

/// Lists the schedules of a namespace.
pub async fn list_of_namespace(
    cell: EveryCell<'_>,
    namespace_id: i32,
) -> Result<Vec<Schedule>, ReadError> {
    let client = cell.reader().await?;
    let rows = client.query(LIST_OF_NAMESPACE, &[&namespace_id]).await?;
    Ok(rows.iter().map(read_schedule).collect())
}

/// Finds one schedule.
pub async fn find(cell: SlotCell<'_>, id: ScheduleId) -> Result<Option<Schedule>, ReadError> {
    let client = cell.reader().await?;
    let row = client.query_opt(FIND, &[id.as_uuid()]).await?;
    Ok(row.as_ref().map(read_schedule))
}
