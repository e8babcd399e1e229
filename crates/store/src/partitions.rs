//! Partitions of `journal` and `effects`: created ahead of their month, and dropped once retention has
//! emptied them, without blocking other sessions.
//!
//! Attaching a table needs a strong lock on the default partition for a moment. A session that
//! waits for a strong lock blocks every session behind it, so no wait is long: behind a dump or
//! another reader the try ends within `LOCK_MS` and is made again later. There are two months of
//! time, and rows without a partition of their own go to the default one meanwhile.
//!
//! Rows that went there (the database's clock was ahead for a while, or a dump ran for a month) are
//! moved into the new partition in the same transaction, under a lock that keeps writers away.
//!
//! Where very many runs are accepted, the table of a month has a partition for each of its days.

mod days;
mod emptied;

pub use days::{RUNS_A_DAY_MIN, split_by_day};
pub use emptied::drop_emptied;

use jiff::civil::Date;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Error, Transaction};

use crate::cell::{Cell, ReadError};
use crate::pool::PooledClient;

/// Which partitions of the current month and the next two are missing.
const MISSING: &str = "
    SELECT t.name, m.month::date, (m.month + interval '1 month')::date,
           t.name || to_char(m.month, '_YYYY_MM'),
           m.month < date_trunc('month', p.now) + interval '2 months'
      FROM (SELECT moment() AT TIME ZONE 'UTC' AS now) AS p,
           unnest(ARRAY['journal', 'effects']) AS t (name),
           generate_series(date_trunc('month', p.now), date_trunc('month', p.now) + interval '2 months',
                           interval '1 month') AS m (month)
     WHERE NOT EXISTS (
               SELECT 1
                 FROM pg_inherits i
                WHERE i.inhparent = t.name::regclass
                  AND i.inhrelid = to_regclass(t.name || to_char(m.month, '_YYYY_MM')))
     ORDER BY m.month, t.name";

/// One server creates partitions at a time; the others do not wait.
const ALONE: &str = "SELECT pg_try_advisory_xact_lock($1)";

pub(crate) const STATEMENTS: &[&str] = &[
    MISSING,
    ALONE,
    days::BUSIEST,
    days::NEXT_MONTH,
    emptied::OLD,
];

/// The lock of [`ALONE`]: the letters SEMEL and a number of ours.
const LOCK: i64 = 0x53_45_4d_45_4c_00_00_02;

/// How long a lock is waited for, in milliseconds.
const LOCK_MS: u32 = 100;

/// How long rows of the default partition may take to be moved, in milliseconds: writers wait for it.
const MOVE_MS: u32 = 5_000;

/// How long a partition is looked at for rows, in milliseconds. One that was emptied a moment ago is all dead
/// rows, and is looked at again when they are vacuumed.
const LOOK_MS: u32 = 1_000;

/// How many rows move at most.
const MOVED_ROWS_MAX: u64 = 1_000;

/// A table that has partitions.
#[derive(Clone, Copy)]
enum Table {
    Journal,
    Effects,
}

impl Table {
    const ALL: [Self; 2] = [Self::Journal, Self::Effects];

    fn name(self) -> &'static str {
        match self {
            Self::Journal => "journal",
            Self::Effects => "effects",
        }
    }

    /// What its partitions are made with.
    fn storage(self) -> &'static str {
        match self {
            Self::Journal => "",
            Self::Effects => " WITH (fillfactor = 70)",
        }
    }
}

/// The result of creating partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Upkeep {
    /// How many partitions were made.
    pub made: u32,
    /// How many are still missing and are tried again later.
    pub missing: u32,
    /// How many of those are of this month or the next: worth an alarm.
    pub urgent: u32,
}

/// A partition that is not there.
struct Partition {
    table: Table,
    from: Date,
    to: Date,
    name: String,
    is_urgent: bool,
}

/// Creates the partitions of this month and the next two that are missing. What cannot be created
/// now, because the tables are in use or another server is creating it, is left for the next time.
pub async fn keep_up(cell: &Cell) -> Result<Upkeep, ReadError> {
    let mut client = cell.reader().await?;
    let mut upkeep = Upkeep::default();
    for partition in missing(&client).await? {
        let made = match make(&mut client, &partition).await {
            Ok(made) => made,
            Err(error) if is_in_use(&error) => false,
            Err(error) => {
                tracing::error!(partition = partition.name, error = %crate::writer::describe(&error),
                    "a partition could not be created");
                false
            }
        };
        match made {
            true => upkeep.made += 1,
            false => {
                upkeep.missing += 1;
                upkeep.urgent += u32::from(partition.is_urgent);
            }
        }
    }
    Ok(upkeep)
}

async fn missing(client: &PooledClient) -> Result<Vec<Partition>, Error> {
    let rows = client.query(MISSING, &[]).await?;
    let read = |row: &tokio_postgres::Row| Partition {
        table: match row.get(0) {
            "journal" => Table::Journal,
            _ => Table::Effects,
        },
        from: row.get(1),
        to: row.get(2),
        name: row.get(3),
        is_urgent: row.get(4),
    };
    Ok(rows.iter().map(read).collect())
}

/// Makes one partition. False where another server is at it.
async fn make(client: &mut PooledClient, partition: &Partition) -> Result<bool, Error> {
    let tx = client.transaction().await?;
    limit(&tx, MOVE_MS).await?;
    if !is_alone(&tx).await? {
        return Ok(false);
    }
    tx.batch_execute(&text(partition)).await?;
    tx.commit().await?;
    tracing::info!(partition = partition.name, "a partition was created");
    Ok(true)
}

/// No wait for a lock is long, and no statement for which others wait.
async fn limit(tx: &Transaction<'_>, statement_ms: u32) -> Result<(), Error> {
    tx.batch_execute(&format!(
        "SET LOCAL lock_timeout = '{LOCK_MS}ms'; SET LOCAL statement_timeout = '{statement_ms}ms'"
    ))
    .await
}

/// How many rows a table has, one more than `most` at most.
async fn count_rows(tx: &Transaction<'_>, table: &str, most: u64) -> Result<u64, Error> {
    let count = format!("SELECT count(*) FROM (SELECT 1 FROM {table} LIMIT {most} + 1) AS r");
    let count: i64 = tx.query_one(&count, &[]).await?.get(0);
    Ok(count.unsigned_abs())
}

/// False where another server is changing partitions.
async fn is_alone(tx: &Transaction<'_>) -> Result<bool, Error> {
    Ok(tx.query_one(ALONE, &[&LOCK]).await?.get(0))
}

/// Makes a table like the others, moves what the default partition has of it, and attaches it.
/// Names and dates are ours: nothing of a user's enters into this text.
fn text(partition: &Partition) -> String {
    let Partition { from, to, name, .. } = partition;
    let (table, storage) = (partition.table.name(), partition.table.storage());
    format!(
        "LOCK TABLE {table}_default IN ACCESS EXCLUSIVE MODE;
         CREATE TABLE {name} (LIKE {table} INCLUDING ALL){storage};
         COMMENT ON TABLE {name} IS 'Rows of runs that were accepted in this month.';
         WITH moved AS (
             DELETE FROM {table}_default WHERE partition_date >= '{from}' AND partition_date < '{to}' RETURNING *)
         INSERT INTO {name} SELECT * FROM moved;
         ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ('{from}') TO ('{to}')"
    )
}

/// Whether the tables are in use, or too large to be looked at now.
fn is_in_use(error: &Error) -> bool {
    error.code().is_some_and(|code| {
        [
            SqlState::LOCK_NOT_AVAILABLE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::QUERY_CANCELED,
        ]
        .contains(code)
    })
}
