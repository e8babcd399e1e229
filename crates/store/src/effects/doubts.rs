//! Effects in doubt, found through `attention`.

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::list::position;
use super::{EffectView, read_view};
use crate::cell::{EveryCell, ReadError};
use crate::listed::{Listed, OLDEST, Position};

pub(super) const DOUBTS: &str = "
    SELECT e.id, e.run_id, e.step, e.kind, e.guard::text, e.state::text, e.attempt, e.intended_at,
           e.settled_at, e.external_id, e.note, e.partition_date
      FROM attention a
      JOIN effects e ON e.partition_date = a.partition_date AND e.id = a.subject_id
     WHERE a.kind = 'doubt' AND a.namespace_id = $1 AND (a.since, a.subject_id) > ($2, $3)
     ORDER BY a.since, a.subject_id
     LIMIT $4";

macro_rules! of_step {
    ($condition:literal) => {
        concat!(
            "
    SELECT e.id, e.run_id, e.step, e.kind, e.guard::text, e.state::text, e.attempt, e.intended_at,
           e.settled_at, e.external_id, e.note, e.partition_date, r.release_id
      FROM attention a
      JOIN effects e ON e.partition_date = a.partition_date AND e.id = a.subject_id
      JOIN runs r ON r.id = a.run_id
     WHERE a.kind = 'doubt' AND a.step = $3
       AND a.flow_id = (SELECT f.id FROM flows f WHERE f.namespace_id = $1 AND f.name = $2)",
            $condition,
            "
     ORDER BY a.since, a.subject_id
     LIMIT $4"
        )
    };
}

pub(super) const OF_STEP: &str = of_step!("");

/// Only of runs on some releases.
pub(super) const OF_STEP_ON: &str = of_step!(" AND r.release_id = ANY ($5)");

pub(super) const RELEASES: &str = "
    SELECT DISTINCT r.release_id
      FROM attention a
      JOIN runs r ON r.id = a.run_id
     WHERE a.kind = 'doubt' AND a.step = $3
       AND a.flow_id = (SELECT f.id FROM flows f WHERE f.namespace_id = $1 AND f.name = $2)";

/// Lists what is in doubt, oldest first: from the beginning, or behind the last one of a page.
pub async fn list_doubts(
    cell: EveryCell<'_>,
    namespace_id: i32,
    after: Option<Position>,
    limit: u16,
) -> Result<Listed<EffectView>, ReadError> {
    let (at, id) = after.unwrap_or(OLDEST);
    let most = i64::from(limit);
    let client = cell.reader().await?;
    let rows = client
        .query(DOUBTS, &[&namespace_id, &at, &id, &most])
        .await?;
    Ok(Listed::read(&rows, limit, read_view, position))
}

/// Lists what is in doubt at one step of a flow, oldest first, each with the release of its run.
pub async fn list_doubts_of_step(
    cell: EveryCell<'_>,
    namespace_id: i32,
    (flow, step): (&str, &str),
    limit: i64,
) -> Result<Vec<(EffectView, i32)>, ReadError> {
    let values: [&(dyn ToSql + Sync); 4] = [&namespace_id, &flow, &step, &limit];
    let rows = cell.reader().await?.query(OF_STEP, &values).await?;
    Ok(rows.iter().map(read_of_step).collect())
}

/// The same, only of runs that are on one of these releases.
pub async fn list_doubts_on_releases(
    cell: EveryCell<'_>,
    namespace_id: i32,
    (flow, step): (&str, &str),
    releases: &[i32],
    limit: i64,
) -> Result<Vec<(EffectView, i32)>, ReadError> {
    let values: [&(dyn ToSql + Sync); 5] = [&namespace_id, &flow, &step, &limit, &releases];
    let rows = cell.reader().await?.query(OF_STEP_ON, &values).await?;
    Ok(rows.iter().map(read_of_step).collect())
}

/// The releases of the runs that are in doubt at one step of a flow.
pub async fn list_releases_in_doubt(
    cell: EveryCell<'_>,
    namespace_id: i32,
    (flow, step): (&str, &str),
) -> Result<Vec<i32>, ReadError> {
    let values: [&(dyn ToSql + Sync); 3] = [&namespace_id, &flow, &step];
    let rows = cell.reader().await?.query(RELEASES, &values).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

fn read_of_step(row: &Row) -> (EffectView, i32) {
    (read_view(row), row.get(12))
}
