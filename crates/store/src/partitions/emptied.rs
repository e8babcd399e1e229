//! Partitions that retention has emptied: dropped, so that their number stays small however long an
//! installation lives. A statement that cannot know the month opens all of them.
//!
//! Few rows may be left, of runs that have not ended or wait for an operator. They move to the default
//! partition, where their runs find them as before.

use tokio_postgres::Error;

use super::{ALONE, LOCK, LOCK_MS, MOVE_MS, is_in_use};
use crate::cell::{Cell, ReadError};
use crate::pool::PooledClient;

/// Partitions of months that ended a month ago or earlier.
pub(super) const OLD: &str = "
    SELECT i.inhparent::regclass::text, c.relname::text
      FROM pg_inherits i
      JOIN pg_class c ON c.oid = i.inhrelid
     WHERE i.inhparent = ANY (ARRAY['journal'::regclass, 'effects'::regclass])
       AND c.relname ~ '_[0-9]{4}_[0-9]{2}$'
       AND c.relname < split_part(i.inhparent::regclass::text, '.', -1)
                       || to_char(moment() AT TIME ZONE 'UTC' - interval '1 month', '_YYYY_MM')
     ORDER BY c.relname";

/// How many rows move at most.
const ROWS_MAX: u64 = 1_000;

/// How long a partition is looked at for rows, in milliseconds. One that was emptied a moment ago is all dead
/// rows, and is looked at again when they are vacuumed.
const LOOK_MS: u32 = 1_000;

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
            Err(error) if is_in_use(&error) || is_timeout(&error) => {}
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
    let limits = |statement_ms| {
        format!(
            "SET LOCAL lock_timeout = '{LOCK_MS}ms'; SET LOCAL statement_timeout = '{statement_ms}ms'"
        )
    };
    tx.batch_execute(&limits(LOOK_MS)).await?;
    let count = format!("SELECT count(*) FROM (SELECT 1 FROM {name} LIMIT {ROWS_MAX} + 1) AS r");
    let count: i64 = tx.query_one(&count, &[]).await?.get(0);
    if count.unsigned_abs() > ROWS_MAX || !tx.query_one(ALONE, &[&LOCK]).await?.get::<_, bool>(0) {
        return Ok(false);
    }
    tx.batch_execute(&limits(MOVE_MS)).await?;
    tx.batch_execute(&format!("ALTER TABLE {table} DETACH PARTITION {name}"))
        .await?;
    let carried = format!("INSERT INTO {table} SELECT * FROM {name}");
    if tx.execute(&carried, &[]).await? > ROWS_MAX {
        return Ok(false);
    }
    tx.batch_execute(&format!("DROP TABLE {name}")).await?;
    tx.commit().await?;
    Ok(true)
}

fn is_timeout(error: &Error) -> bool {
    error.code() == Some(&tokio_postgres::error::SqlState::QUERY_CANCELED)
}
