//! What waits in the outbox, for metrics.

use crate::cell::{EveryCell, ReadError};

/// What cannot be read is counted up to a limit. A broadcast whose pages are through waits for runs that cannot be read.
const DEPTH: &str = "
    SELECT (SELECT extract(epoch FROM moment() - o.emitted_at)::float8
              FROM outbox o ORDER BY o.emitted_at LIMIT 1),
           (SELECT count(*) FROM (SELECT 1 FROM outbox o WHERE o.unread = 'newer' LIMIT $1) AS newer)
               + (SELECT count(*) FROM (SELECT 1 FROM broadcasts b WHERE b.pages_done LIMIT $1) AS waits),
           (SELECT count(*) FROM (SELECT 1 FROM outbox o WHERE o.unread = 'damaged' LIMIT $1) AS damaged)";

pub(super) const STATEMENTS: &[&str] = &[DEPTH];

/// The most events that are counted of each kind.
const COUNT_MAX: i64 = 10_000;

/// What waits in the outbox.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutboxDepth {
    /// The age of the oldest event that is not dispatched, in seconds; zero where there is none.
    pub oldest_secs: f64,
    /// Events left for another server, because something that they need was written by a newer version; and events whose
    /// waits are of runs that cannot be read.
    pub unread: i64,
    /// Events that no version can read.
    pub unreadable: i64,
}

/// How old the oldest event is, and how many cannot be read.
pub async fn depth(cell: EveryCell<'_>) -> Result<OutboxDepth, ReadError> {
    let client = cell.reader().await?;
    let row = client.query_one(DEPTH, &[&COUNT_MAX]).await?;
    let oldest: Option<f64> = row.get(0);
    Ok(OutboxDepth {
        oldest_secs: oldest.unwrap_or_default().max(0.0),
        unread: row.get(1),
        unreadable: row.get(2),
    })
}
