//! How much work there is, for metrics.

use super::fair::first_runs;
use crate::cell::{EveryCell, ReadError};

/// What is held is bounded by what servers can hold; what is due is counted up to a limit, from
/// the front of each namespace, so that neither a backlog nor sleepers make this slow.
pub(super) const DEPTH: &str = concat!(
    first_runs!(""),
    "
    SELECT (SELECT count(*) FROM queue WHERE holder IS NOT NULL),
           (SELECT count(*)
              FROM (SELECT 1
                      FROM firsts f
                     CROSS JOIN LATERAL (SELECT 1
                                           FROM queue q
                                          WHERE q.holder IS NULL AND q.namespace_id = f.namespace_id
                                            AND q.due_at <= (SELECT moment())
                                          ORDER BY q.due_at
                                          LIMIT $1) t
                     LIMIT $1) AS due),
           (SELECT extract(epoch FROM moment() - min(due_at))::float8
              FROM firsts
             WHERE due_at < 'infinity')"
);

/// The most runs that are counted as due.
pub const DEPTH_MAX: i64 = 10_000;

/// How much work there is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Depth {
    /// Runs that workers hold.
    pub held: i64,
    /// Runs that are due and wait for a worker, [`DEPTH_MAX`] at most.
    pub due: i64,
    /// For how many seconds the first of them has been due; zero where none is.
    pub oldest_secs: f64,
}

/// How many runs are held, and how many are due and wait for a worker.
pub async fn depth(cell: EveryCell<'_>) -> Result<Depth, ReadError> {
    let client = cell.reader().await?;
    let row = client.query_one(DEPTH, &[&DEPTH_MAX]).await?;
    // Of a run that is not due yet it is negative.
    let oldest: Option<f64> = row.get(2);
    Ok(Depth {
        held: row.get(0),
        due: row.get(1),
        oldest_secs: oldest.unwrap_or_default().max(0.0),
    })
}
