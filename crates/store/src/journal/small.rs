//! Several journals in one statement, as long as they are small.

use std::collections::HashMap;

use jiff::civil::Date;
use semel_model::RunId;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{JournalRow, read_line};
use crate::cell::{EveryCell, ReadError};

/// The rows of several journals, as long as all that came before them are small together: by what they
/// take as they are stored. How many rows each journal has stands beside them.
pub(super) const READ_SMALL: &str = "
    SELECT run_id, seq, at, events::text, count
      FROM (SELECT j.run_id, j.seq, j.at, j.events, w.place,
                   count(*) OVER (PARTITION BY w.place) AS count,
                   sum(pg_column_size(j.events)) OVER (ORDER BY w.place, j.seq) AS size
              FROM unnest($1::date[], $2::uuid[]) WITH ORDINALITY AS w (partition_date, run_id, place)
             CROSS JOIN LATERAL (SELECT * FROM journal
                                  WHERE partition_date = w.partition_date AND run_id = w.run_id) j) j
     WHERE size <= $3
     ORDER BY place, seq";

/// Reads the journals of several runs in one statement: those that are whole within so many bytes, as
/// they are stored, of all in this order.
pub async fn read_small(
    cell: EveryCell<'_>,
    runs: &[(Date, RunId)],
    bytes_max: i64,
) -> Result<HashMap<RunId, Vec<JournalRow>>, ReadError> {
    let dates: Vec<Date> = runs.iter().map(|(date, _)| *date).collect();
    let ids: Vec<Uuid> = runs.iter().map(|(_, run)| *run.as_uuid()).collect();
    let client = cell.reader().await?;
    let asked: [&(dyn ToSql + Sync); 3] = [&dates, &ids, &bytes_max];
    let rows = client.query(READ_SMALL, &asked).await?;
    let mut found: HashMap<RunId, (i64, Vec<JournalRow>)> = HashMap::new();
    for row in &rows {
        let run = RunId::from_uuid(row.get(0));
        let journal = found.entry(run).or_insert_with(|| (row.get(4), Vec::new()));
        journal.1.push(read_line(row));
    }
    let is_whole = |(count, lines): &(i64, Vec<JournalRow>)| *count == lines.len() as i64;
    let whole = found.into_iter().filter(|(_, journal)| is_whole(journal));
    Ok(whole.map(|(run, (_, lines))| (run, lines)).collect())
}
