//! Days within the next month, where so many runs are accepted that a month is too large to vacuum and to
//! drop as a whole.
//!
//! Only a month that has not begun is split: there is nothing in it, apart from rows that a clock which was
//! ahead left there. Its table is replaced by one of the same name that has a partition for each
//! day, and one for rows whose day has none.

use jiff::ToSpan;
use jiff::civil::Date;
use tokio_postgres::Error;

use super::{LOOK_MS, MOVED_ROWS_MAX, Table, count_rows, is_alone, is_in_use, limit};
use crate::cell::{Cell, ReadError};
use crate::pool::PooledClient;

/// The next month is split if at least this many runs were accepted in a day: a thousand a second.
pub const RUNS_A_DAY_MIN: i64 = 86_400_000;

/// A default partition with more rows is not looked through while everybody waits.
const DEFAULT_ROWS_MAX: u64 = 50_000;

/// The most runs that were accepted in a day, of yesterday and today.
pub(super) const BUSIEST: &str = "
    SELECT coalesce(max(d.runs), 0)::int8
      FROM (SELECT sum(t.count) AS runs
              FROM tallies t
             WHERE t.unit = 'day'
               AND t.began_at >= date_trunc('day', (SELECT moment()), 'UTC') - interval '1 day'
               AND t.what = 'accepted'
               AND t.step = ''
             GROUP BY t.began_at) AS d";

/// The next month, and whether a table has it as one partition.
pub(super) const NEXT_MONTH: &str = "
    SELECT m.month, EXISTS (
               SELECT 1
                 FROM pg_inherits i
                 JOIN pg_class c ON c.oid = i.inhrelid
                WHERE i.inhparent = $1::text::regclass
                  AND c.oid = to_regclass($1::text || to_char(m.month, '_YYYY_MM'))
                  AND c.relkind = 'r')
      FROM (SELECT (date_trunc('month', moment() AT TIME ZONE 'UTC') + interval '1 month')::date AS month) AS m";

/// Splits the next month into its days if at least so many runs were accepted in a day. Returns of how many
/// tables; what is in use is left for the next time.
pub async fn split_by_day(cell: &Cell, runs_a_day_min: i64) -> Result<u32, ReadError> {
    let mut client = cell.reader().await?;
    let busiest: i64 = client.query_one(BUSIEST, &[]).await?.get(0);
    if busiest < runs_a_day_min {
        return Ok(0);
    }
    let mut split = 0;
    for table in Table::ALL {
        match split_month(&mut client, table).await {
            Ok(true) => {
                split += 1;
                tracing::info!(
                    table = table.name(),
                    busiest,
                    "the next month was split into its days"
                );
            }
            Ok(false) => {}
            Err(error) if is_in_use(&error) => {}
            Err(error) => {
                tracing::error!(table = table.name(), error = %crate::writer::describe(&error),
                    "the next month could not be split into its days");
            }
        }
    }
    Ok(split)
}

/// False where it is split already, another server is doing it, or there are too many rows.
async fn split_month(client: &mut PooledClient, table: Table) -> Result<bool, Error> {
    let tx = client.transaction().await?;
    limit(&tx, LOOK_MS).await?;
    if !is_alone(&tx).await? {
        return Ok(false);
    }
    let row = tx.query_one(NEXT_MONTH, &[&table.name()]).await?;
    let (month, is_whole): (Date, bool) = (row.get(0), row.get(1));
    if !is_whole {
        return Ok(false);
    }
    let month = Month::of(table, month);
    let default = format!("{}_default", table.name());
    let early = count_rows(&tx, &month.name, MOVED_ROWS_MAX).await?;
    let left = count_rows(&tx, &default, DEFAULT_ROWS_MAX).await?;
    if early > MOVED_ROWS_MAX || left > DEFAULT_ROWS_MAX {
        tracing::warn!(
            table = table.name(),
            early,
            left,
            "the next month is not split into its days: it or the default partition has too many rows"
        );
        return Ok(false);
    }
    // Nobody waits for these tables: they are not attached yet.
    tx.batch_execute(&month.create()).await?;
    tx.batch_execute(&month.take_the_place()).await?;
    tx.commit().await?;
    Ok(true)
}

/// A month of a table. Names and dates are ours: nothing of a user's enters into these texts.
struct Month {
    table: Table,
    name: String,
    first: Date,
}

impl Month {
    fn of(table: Table, first: Date) -> Self {
        let name = format!("{}_{}", table.name(), first.strftime("%Y_%m"));
        Self { table, name, first }
    }

    /// Makes the table with its days, under another name.
    fn create(&self) -> String {
        let Self { table, name, first } = self;
        let (parent, storage) = (table.name(), table.storage());
        let mut text = format!(
            "CREATE TABLE {name}_split (LIKE {parent} INCLUDING ALL) PARTITION BY RANGE (partition_date);
             COMMENT ON TABLE {name}_split IS 'Rows of runs that were accepted in this month, by day.';
             CREATE TABLE {name}_default PARTITION OF {name}_split DEFAULT{storage};
             COMMENT ON TABLE {name}_default IS 'Rows of this month whose day has no partition any more.';"
        );
        for day in 0..first.days_in_month() {
            let from = first.saturating_add(day.days());
            let to = from.saturating_add(1.day());
            let day = format!("{parent}_{}", from.strftime("%Y_%m_%d"));
            text += &format!(
                "CREATE TABLE {day} PARTITION OF {name}_split FOR VALUES FROM ('{from}') TO ('{to}'){storage};
                 COMMENT ON TABLE {day} IS 'Rows of runs that were accepted on this day.';"
            );
        }
        text
    }

    /// Puts it where the month was, with the rows that were there.
    fn take_the_place(&self) -> String {
        let Self { table, name, first } = self;
        let parent = table.name();
        let to = first.saturating_add(1.month());
        format!(
            "ALTER TABLE {parent} DETACH PARTITION {name};
             INSERT INTO {name}_split SELECT * FROM {name};
             DROP TABLE {name};
             ALTER TABLE {name}_split RENAME TO {name};
             ALTER TABLE {parent} ATTACH PARTITION {name} FOR VALUES FROM ('{first}') TO ('{to}');"
        )
    }
}
