//! The runs that a job would be about.

use jiff::Timestamp;
use semel_model::RunId;
use semel_model::run::RunState;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::JOB_RUNS_MAX;
use crate::cell::{EveryCell, ReadError};

/// The runs of a flow that a job would be about, of those that were scanned; and how many those were. Child
/// runs are none of them: their parents cancel and resume those.
macro_rules! planned {
    ($scan:literal, $from:literal) => {
        concat!(
            "
    WITH scanned AS MATERIALIZED (",
            $scan,
            "
         LIMIT $7),
    fitting AS MATERIALIZED (
        SELECT r.id, r.state, r.partition_date",
            $from,
            "
         ORDER BY r.id
         LIMIT $5)
    SELECT r.id, r.state::text,
           coalesce((SELECT j.seq FROM journal j
                      WHERE j.partition_date = r.partition_date AND j.run_id = r.id
                      ORDER BY j.seq DESC LIMIT 1), 0), s.count
      FROM (SELECT count(*) FROM scanned) AS s
      LEFT JOIN fitting r ON true
     ORDER BY r.id"
        )
    };
}

/// Of those that were accepted in a time.
pub(super) const SCAN: &str = planned!(
    "
        SELECT r.id, r.state, r.partition_date
          FROM runs r
         WHERE r.parent_id IS NULL AND r.accepted_at >= $3 AND r.accepted_at < $4
           AND r.release_id = ANY (ARRAY(SELECT l.id FROM releases l JOIN flows f ON f.id = l.flow_id
                                          WHERE f.namespace_id = $6 AND f.name = $1))",
    "
          FROM scanned r
         WHERE r.state::text = ANY ($2::text[])"
);

/// Of those that have not ended, by the queue, which has no others.
pub(super) const OPEN: &str = planned!(
    "
        SELECT run_id FROM queue",
    "
          FROM scanned q
          JOIN runs r ON r.id = q.run_id
         WHERE r.parent_id IS NULL AND r.accepted_at >= $3 AND r.accepted_at < $4
           AND r.release_id = ANY (ARRAY(SELECT l.id FROM releases l JOIN flows f ON f.id = l.flow_id
                                          WHERE f.namespace_id = $6 AND f.name = $1))
           AND r.state::text = ANY ($2::text[])"
);

/// How many runs one statement looks at for those of a state.
const SCAN_MAX: i64 = 200_000;

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

/// The runs of a range.
#[derive(Clone, Debug)]
pub struct Candidates {
    /// The runs as they are: one more than a job may have, where there are that many.
    pub runs: Vec<PlannedRun>,
    /// Whether there may be others, because more runs were accepted in that time than are looked at.
    pub is_cut: bool,
}

/// Lists the runs of a range.
pub async fn list_candidates(
    cell: EveryCell<'_>,
    namespace_id: i32,
    range: &JobRange<'_>,
) -> Result<Candidates, ReadError> {
    let limit = JOB_RUNS_MAX + 1;
    let after = range.after.unwrap_or(Timestamp::UNIX_EPOCH);
    let before = range.before.unwrap_or(Timestamp::MAX);
    let client = cell.reader().await?;
    let values: [&(dyn ToSql + Sync); 7] = [
        &range.flow,
        &range.states,
        &after,
        &before,
        &limit,
        &namespace_id,
        &SCAN_MAX,
    ];
    let mut rows = Vec::new();
    let are_open = !range.states.iter().any(|state| is_end(state));
    if are_open {
        rows = client.query(OPEN, &values).await?;
    }
    // The queue may be full of sleepers: of those of a time there may be fewer.
    if !are_open || scanned(&rows) >= SCAN_MAX {
        rows = client.query(SCAN, &values).await?;
    }
    let read = |row: &Row| {
        Some(PlannedRun {
            run: RunId::from_uuid(row.get::<_, Option<Uuid>>(0)?),
            state: row.get(1),
            seq: row.get(2),
        })
    };
    Ok(Candidates {
        runs: rows.iter().filter_map(read).collect(),
        is_cut: scanned(&rows) >= SCAN_MAX,
    })
}

fn scanned(rows: &[Row]) -> i64 {
    rows.first().map_or(0, |row| row.get(3))
}

/// Whether a run in a state has ended, so that the queue does not have it.
fn is_end(state: &str) -> bool {
    RunState::ALL
        .iter()
        .any(|known| known.as_str() == state && known.is_ended())
}
