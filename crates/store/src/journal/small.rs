//! Several journals in one statement, as long as they are small.

use std::collections::HashMap;

use jiff::civil::Date;
use semel_model::RunId;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{JournalRow, read_line};
use crate::cell::{EveryCell, ReadError};

/// The most rows of a journal that is small.
const ROWS_MAX: i64 = 500;

/// The rows of those journals that are small, each by itself: by how many they are, and by what they take as
/// they are stored. Of a long one no more rows are looked at than tell that it is long.
pub(super) const READ_SMALL: &str = "
    SELECT run_id, seq, at, events::text
      FROM (SELECT j.run_id, j.seq, j.at, j.events, w.place, count(*) OVER own AS count,
                   sum(pg_column_size(j.events)) OVER own AS size
              FROM unnest($1::date[], $2::uuid[]) WITH ORDINALITY AS w (partition_date, run_id, place)
             CROSS JOIN LATERAL (SELECT * FROM journal
                                  WHERE partition_date = w.partition_date AND run_id = w.run_id
                                  ORDER BY seq
                                  LIMIT $4::int8 + 1) j
            WINDOW own AS (PARTITION BY w.place)) j
     WHERE size <= $3 AND count <= $4
     ORDER BY place, seq";

/// Reads the journals of several runs in one statement: those that take at most so many bytes each, as
/// they are stored.
pub async fn read_small(
    cell: EveryCell<'_>,
    runs: &[(Date, RunId)],
    bytes_max: i64,
) -> Result<HashMap<RunId, Vec<JournalRow>>, ReadError> {
    let dates: Vec<Date> = runs.iter().map(|(date, _)| *date).collect();
    let ids: Vec<Uuid> = runs.iter().map(|(_, run)| *run.as_uuid()).collect();
    let client = cell.reader().await?;
    let asked: [&(dyn ToSql + Sync); 4] = [&dates, &ids, &bytes_max, &ROWS_MAX];
    let mut found: HashMap<RunId, Vec<JournalRow>> = HashMap::new();
    for row in client.query(READ_SMALL, &asked).await? {
        let journal = found.entry(RunId::from_uuid(row.get(0))).or_default();
        journal.push(read_line(&row));
    }
    Ok(found)
}
