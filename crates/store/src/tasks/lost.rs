//! Tasks whose worker fell silent: their lease is over.

use uuid::Uuid;

use super::{HEAR, LOCK_RUNS};
use crate::cell::{EveryCell, ReadError};

pub(super) const LEASES_OVER: &str = "
    SELECT id, run_id
      FROM tasks
     WHERE state = 'held' AND lease_until <= (SELECT moment())
     ORDER BY lease_until
     LIMIT $1";

pub(super) const LOSE: &str = "
    UPDATE tasks
       SET state = 'lost', ended_at = (SELECT moment()), lease_until = NULL
     WHERE id = ANY ($1) AND state IS NOT DISTINCT FROM 'held'
       AND lease_until <= (SELECT moment())
 RETURNING id";

pub(super) const OVER: &str = "
    SELECT run_id FROM tasks
     WHERE id = $1 AND state IS NOT DISTINCT FROM 'held' AND lease_until <= (SELECT moment())";

/// The most leases that one pass finds over.
const LOSE_MAX: i64 = 1_000;

/// Marks tasks as lost whose lease is over, and wakes their runs. Gives how many.
pub async fn lose(cell: EveryCell<'_>) -> Result<u64, ReadError> {
    let mut client = cell.reader().await?;
    let over = client.query(LEASES_OVER, &[&LOSE_MAX]).await?;
    if over.is_empty() {
        return Ok(0);
    }
    let ids: Vec<Uuid> = over.iter().map(|row| row.get(0)).collect();
    let runs: Vec<Uuid> = over.iter().map(|row| row.get(1)).collect();
    let tx = client.transaction().await?;
    tx.query(LOCK_RUNS, &[&runs]).await?;
    let lost = tx.query(LOSE, &[&ids]).await?;
    tx.execute(HEAR, &[&ids]).await?;
    tx.commit().await?;
    Ok(lost.len() as u64)
}
