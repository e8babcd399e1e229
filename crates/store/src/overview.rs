//! What waits for a person in a namespace, of every kind, in one statement.

use jiff::Timestamp;
use tokio_postgres::Row;

use crate::cell::{EveryCell, ReadError};

/// How much of one kind is counted.
pub const WAITING_MAX: i64 = 50;

/// One more than is counted of each, so that more can be told; the oldest is the first of its index.
const WAITING: &str = "
    SELECT 'doubt', count(*), min(since)
      FROM (SELECT since FROM attention WHERE kind = 'doubt' AND namespace_id = $1
             ORDER BY since, subject_id LIMIT $2) AS a
     UNION ALL
    SELECT 'needs_review', count(*), min(since)
      FROM (SELECT since FROM attention WHERE kind = 'needs_review' AND namespace_id = $1
             ORDER BY since, subject_id LIMIT $2) AS a
     UNION ALL
    SELECT 'quarantined', count(*), min(since)
      FROM (SELECT since FROM attention WHERE kind = 'quarantined' AND namespace_id = $1
             ORDER BY since, subject_id LIMIT $2) AS a
     UNION ALL
    SELECT 'approval', count(*), min(opened_at)
      FROM (SELECT opened_at FROM approvals WHERE state = 'open' AND namespace_id = $1
             ORDER BY opened_at, id LIMIT $2) AS a
     UNION ALL
    SELECT 'held', count(*), min(last_at)
      FROM (SELECT last_at FROM duplicates
             WHERE namespace_id = $1 AND verdict = 'held'
               AND (decision IS NULL OR (decision = 'new_key' AND decided_run IS NULL))
             ORDER BY minute, subject LIMIT $2) AS d
     UNION ALL
    SELECT 'pause', count(*), min(paused_at)
      FROM (SELECT paused_at FROM pauses WHERE namespace_id = $1 AND resumed_at IS NULL LIMIT $2) AS p";

pub(crate) const STATEMENTS: &[&str] = &[WAITING];

/// Something that waits for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingView {
    /// What: `doubt`, `needs_review`, `quarantined`, `approval`, `held` or `pause`.
    pub what: String,
    /// How many; one more than [`WAITING_MAX`] where there are more.
    pub count: i64,
    /// Since when the oldest waits.
    pub since: Option<Timestamp>,
}

/// What waits in a namespace, of every kind.
pub async fn list_waiting(
    cell: EveryCell<'_>,
    namespace_id: i32,
) -> Result<Vec<WaitingView>, ReadError> {
    let client = cell.reader().await?;
    let statement = client.prepare_cached(WAITING).await?;
    let limit = WAITING_MAX + 1;
    let rows = client.query(&statement, &[&namespace_id, &limit]).await?;
    let read = |row: &Row| WaitingView {
        what: row.get(0),
        count: row.get(1),
        since: row.get(2),
    };
    Ok(rows.iter().map(read).collect())
}
