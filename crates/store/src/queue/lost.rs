//! Runs that a lost process holds.

use crate::cell::{Cell, ReadError};

pub(super) const RECOVER: &str = "
    WITH lost AS (
        SELECT q.run_id
          FROM sessions s
          JOIN queue q ON q.holder = s.id
         WHERE s.expires_at <= (SELECT moment())
         LIMIT $1
           FOR UPDATE OF q SKIP LOCKED)
    UPDATE queue q
       SET holder = NULL, due_at = (SELECT moment()), stage = 'ready'
      FROM lost
     WHERE q.run_id = lost.run_id";

/// A write that was under way when its session was closed or swept may have landed after that.
pub(super) const RECOVER_STRAYS: &str = "
    UPDATE queue q
       SET holder = NULL, due_at = (SELECT moment()), stage = 'ready'
     WHERE q.holder IS NOT NULL
       AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = q.holder)";

/// The most runs that one pass takes back from the dead.
pub const RECOVER_MAX: i64 = 1000;

/// Frees runs whose session has expired; they are due at once.
pub async fn recover(cell: &Cell) -> Result<u64, ReadError> {
    Ok(cell
        .reader()
        .await?
        .execute(RECOVER, &[&RECOVER_MAX])
        .await?)
}

/// Frees runs whose session is not even on record any more.
pub async fn recover_strays(cell: &Cell) -> Result<u64, ReadError> {
    Ok(cell.reader().await?.execute(RECOVER_STRAYS, &[]).await?)
}
