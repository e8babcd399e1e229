//! Whether too many runs of a namespace wait for a server.

use crate::cell::{EveryCell, ReadError};

/// Reads no more of the index than the limit.
pub(super) const BACKLOG: &str = "
    SELECT count(*)
      FROM (SELECT 1
              FROM queue q
             WHERE q.holder IS NULL AND q.namespace_id = $1 AND q.due_at <= (SELECT moment())
             ORDER BY q.due_at
             LIMIT $2) AS due";

/// How many runs of a namespace are due and wait for a server, `limit` at most.
pub async fn count_backlog(
    cell: EveryCell<'_>,
    namespace_id: i32,
    limit: i64,
) -> Result<i64, ReadError> {
    let client = cell.reader().await?;
    let row = client.query_one(BACKLOG, &[&namespace_id, &limit]).await?;
    Ok(row.get(0))
}
