//! Runs that reused a named effect: who of them, and how often.
//!
//! They are counted in the row itself, under the lock of the begin that found the effect done. An undo
//! compares the count under the same lock: a count in another table would be read by an older snapshot.

use deadpool_postgres::Transaction;
use semel_model::{NamedEffectState, SeededBug};
use tokio_postgres::types::ToSql;

use super::{NamedBegin, NamedEffectView, NamedHolder};
use crate::cell::ReadError;

/// A run that begins again after a crash is counted once, as long as the row names it. The run that
/// performed the effect may reuse it in another step: it undoes both.
const REUSE: &str = "
    UPDATE named_effects n
       SET reuse_count = least(n.reuse_count, 2147483646) + 1,
           reused_by = CASE WHEN cardinality(n.reused_by) < 16 THEN n.reused_by || $2::uuid
                            ELSE n.reused_by END
     WHERE n.id = $1 AND n.state = 'done' AND n.holder_run <> $2 AND $2 <> ALL (n.reused_by)";

pub(crate) const STATEMENTS: &[&str] = &[REUSE];

/// Counts a run that found the effect done and goes on with its result, in the transaction that locked
/// the row.
pub(super) async fn count(
    tx: &Transaction<'_>,
    asked: &NamedBegin,
    found: &NamedEffectView,
) -> Result<(), ReadError> {
    let NamedHolder::Run { run, .. } = &asked.holder else {
        return Ok(());
    };
    let same = found.fingerprint == Some(asked.fingerprint) || asked.accepts_other;
    let reuses = found.state == NamedEffectState::Done && found.action == asked.action && same;
    if reuses && !SeededBug::ReuseNotCounted.is_seeded() {
        let values: [&(dyn ToSql + Sync); 2] = [asked.id.as_uuid(), run.as_uuid()];
        tx.execute(REUSE, &values).await?;
    }
    Ok(())
}
