//! Duplicates that are past their time.

use semel_model::Span;

use crate::cell::{EveryCell, ReadError};

/// Namespace by namespace, because the index is led by it. What an operator has to decide stays.
pub(super) const FORGET: &str = "
    DELETE FROM duplicates
     WHERE (subject, stopped_by, fingerprint) IN
           (SELECT d.subject, d.stopped_by, d.fingerprint
              FROM namespaces n
             CROSS JOIN LATERAL (
                   SELECT subject, stopped_by, fingerprint
                     FROM duplicates
                    WHERE namespace_id = n.id
                      AND minute < (SELECT moment()) - make_interval(secs => $1)
                      AND (verdict <> 'held' OR NOT (decision IS NULL
                           OR (decision = 'new_key' AND decided_run IS NULL)))
                    ORDER BY minute
                    LIMIT $2
                      FOR UPDATE SKIP LOCKED) AS d
             LIMIT $2)";

/// The most rows that one statement removes.
const FORGET_MAX: i64 = 5_000;

/// Removes duplicates whose latest came longer ago than this. Returns how many there were, as far as one
/// statement goes.
pub async fn forget(cell: EveryCell<'_>, history: Span) -> Result<u64, ReadError> {
    let secs = history.as_secs_f64();
    let client = cell.reader().await?;
    Ok(client.execute(FORGET, &[&secs, &FORGET_MAX]).await?)
}
