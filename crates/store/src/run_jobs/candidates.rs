//! The runs that a job would be about.

use jiff::Timestamp;
use semel_model::RunId;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::JOB_RUNS_MAX;
use crate::cell::{EveryCell, ReadError};

/// Runs of a flow, but for child runs, which their parents cancel and resume.
pub(super) const CANDIDATES: &str = "
    SELECT r.id, r.state::text,
           coalesce((SELECT j.seq FROM journal j
                      WHERE j.partition_date = r.partition_date AND j.run_id = r.id
                      ORDER BY j.seq DESC LIMIT 1), 0)
      FROM runs r
      JOIN releases l ON l.id = r.release_id
      JOIN flows f ON f.id = l.flow_id
     WHERE r.namespace_id = $1 AND f.name = $2 AND r.parent_id IS NULL
       AND r.state::text = ANY ($3::text[])
       AND r.accepted_at >= coalesce($4::timestamptz, '-infinity')
       AND r.accepted_at < coalesce($5::timestamptz, 'infinity')
     ORDER BY r.id
     LIMIT $6";

/// Which runs a job is about.
#[derive(Clone, Debug)]
pub struct JobRange<'a> {
    /// The flow.
    pub flow: &'a str,
    /// The states of runs.
    pub states: Vec<&'a str>,
    /// Accepted at this time or later.
    pub after: Option<Timestamp>,
    /// Accepted before this time.
    pub before: Option<Timestamp>,
}

/// A run that a job would be about, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRun {
    /// The run.
    pub run: RunId,
    /// Its state.
    pub state: String,
    /// The number of the latest row of its journal.
    pub seq: i32,
}

/// Lists the runs of a range as they are: one more than a job may have, where there are that many.
pub async fn list_candidates(
    cell: EveryCell<'_>,
    namespace_id: i32,
    range: &JobRange<'_>,
) -> Result<Vec<PlannedRun>, ReadError> {
    let limit = JOB_RUNS_MAX + 1;
    let values: [&(dyn ToSql + Sync); 6] = [
        &namespace_id,
        &range.flow,
        &range.states,
        &range.after,
        &range.before,
        &limit,
    ];
    let rows = cell.reader().await?.query(CANDIDATES, &values).await?;
    let read = |row: &Row| PlannedRun {
        run: RunId::from_uuid(row.get(0)),
        state: row.get(1),
        seq: row.get(2),
    };
    Ok(rows.iter().map(read).collect())
}
