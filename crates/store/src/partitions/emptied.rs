//! Partitions that retention has emptied: dropped, so that their number stays small however long an
//! installation lives. A statement that does not name `partition_date` opens all of them.
//!
//! Few rows may be left, of runs that have not ended or wait for an operator. They move to the default
//! partition, of the month or of all, where their runs find them as before.

use tokio_postgres::Error;

use super::{LOOK_MS, MOVE_MS, MOVED_ROWS_MAX, count_rows, is_alone, is_in_use, limit};
use crate::cell::{Cell, ReadError};
use crate::pool::PooledClient;

/// Partitions of months that ended a month ago or earlier, and of days that ended a day ago or earlier.
pub(super) const OLD: &str = "
    SELECT t.parentrelid::regclass::text, c.relname::text
      FROM unnest(ARRAY['journal', 'effects']) AS r (name)
     CROSS JOIN LATERAL pg_partition_tree(r.name::regclass) AS t
      JOIN pg_class c ON c.oid = t.relid
     WHERE c.relname ~ '_[0-9]{4}_[0-9]{2}(_[0-9]{2})?$'
       AND c.relname < r.name
                       || CASE WHEN t.level = 2
                               THEN to_char(moment() AT TIME ZONE 'UTC' - interval '1 day', '_YYYY_MM_DD')
                               ELSE to_char(moment() AT TIME ZONE 'UTC' - interval '1 month', '_YYYY_MM')
                          END
     ORDER BY t.level DESC, c.relname";

/// Drops the old partitions that are as good as empty. What cannot be dropped now, because the tables are in use,
/// is left for the next time. Gives how many were dropped.
pub async fn drop_emptied(cell: &Cell) -> Result<u32, ReadError> {
    let mut client = cell.reader().await?;
    let mut dropped = 0;
    for row in client.query(OLD, &[]).await? {
        let (table, name): (String, String) = (row.get(0), row.get(1));
        match drop_one(&mut client, &table, &name).await {
            Ok(true) => {
                dropped += 1;
                tracing::info!(partition = name, "an emptied partition was dropped");
            }
            Ok(false) => {}
            Err(error) if is_in_use(&error) => {}
            Err(error) => {
                tracing::error!(partition = name, error = %crate::writer::describe(&error),
                    "an emptied partition could not be dropped");
            }
        }
    }
    Ok(dropped)
}

/// False where it is not empty, or another server is at it. Names are those of the database's catalogue:
/// nothing of a user's enters into these texts.
async fn drop_one(client: &mut PooledClient, table: &str, name: &str) -> Result<bool, Error> {
    let tx = client.transaction().await?;
    limit(&tx, LOOK_MS).await?;
    let left = count_rows(&tx, name, MOVED_ROWS_MAX).await?;
    if left > MOVED_ROWS_MAX || !is_alone(&tx).await? {
        return Ok(false);
    }
    limit(&tx, MOVE_MS).await?;
    tx.batch_execute(&format!("ALTER TABLE {table} DETACH PARTITION {name}"))
        .await?;
    let carried = format!("INSERT INTO {table} SELECT * FROM {name}");
    if tx.execute(&carried, &[]).await? > MOVED_ROWS_MAX {
        return Ok(false);
    }
    tx.batch_execute(&format!("DROP TABLE {name}")).await?;
    tx.commit().await?;
    Ok(true)
}
