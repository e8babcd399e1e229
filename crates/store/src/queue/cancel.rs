//! Asking for a run's end: of the engine's own accord, or on an operator's behalf.

use semel_model::RunId;
use tokio_postgres::types::ToSql;

use crate::audit::{self, AuditEntry};
use crate::cell::{ReadError, SlotCell};

pub(super) const CANCEL: &str = "/* commits alone: cancel */
    UPDATE queue q
       SET cancel = true,
           due_at = CASE WHEN q.holder IS NULL THEN moment() ELSE q.due_at END
      FROM runs r
     WHERE q.run_id = $1 AND r.id = q.run_id AND r.namespace_id = $2";

/// Asks for a run's end. False when it has ended, or is none of this namespace's.
pub async fn ask_cancel(
    cell: SlotCell<'_>,
    namespace_id: i32,
    run: RunId,
) -> Result<bool, ReadError> {
    let client = cell.reader().await?;
    let values: [&(dyn ToSql + Sync); 2] = [run.as_uuid(), &namespace_id];
    Ok(client.execute(CANCEL, &values).await? == 1)
}

/// The same on a person's behalf: the act is recorded in the same commit.
pub async fn ask_cancel_by(
    cell: SlotCell<'_>,
    namespace_id: i32,
    run: RunId,
    act: &AuditEntry,
) -> Result<bool, ReadError> {
    let values: [&(dyn ToSql + Sync); 2] = [run.as_uuid(), &namespace_id];
    Ok(audit::execute(cell, CANCEL, &values, act).await? == 1)
}
