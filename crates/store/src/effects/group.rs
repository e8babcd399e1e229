//! The doubts of one step of a flow, which an operator settles together.

use tokio_postgres::types::ToSql;

use super::{EffectView, read_view};
use crate::cell::{EveryCell, ReadError};

pub(super) const OF_STEP: &str = "
    SELECT e.id, e.run_id, e.step, e.kind, e.guard::text, e.state::text, e.attempt, e.intended_at,
           e.settled_at, e.external_id, e.note, e.partition_date, r.release_id
      FROM effects e
      JOIN runs r ON r.id = e.run_id
      JOIN releases l ON l.id = r.release_id
      JOIN flows f ON f.id = l.flow_id
     WHERE e.namespace_id = $1 AND e.state = 'in_doubt' AND f.name = $2 AND e.step = $3
     ORDER BY e.intended_at, e.id
     LIMIT $4";

/// Lists what is in doubt at one step of a flow, oldest first, each with the release of its run.
pub async fn list_doubts_of_step(
    cell: EveryCell<'_>,
    namespace_id: i32,
    (flow, step): (&str, &str),
    limit: i64,
) -> Result<Vec<(EffectView, i32)>, ReadError> {
    let values: [&(dyn ToSql + Sync); 4] = [&namespace_id, &flow, &step, &limit];
    let rows = cell.reader().await?.query(OF_STEP, &values).await?;
    Ok(rows
        .iter()
        .map(|row| (read_view(row), row.get(12)))
        .collect())
}
