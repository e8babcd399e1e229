//! The `duties` table: when each background duty was last done, by any server.
//!
//! A server that holds duties says every few seconds which of them it finished, all in one statement. What it reads here
//! makes it take duties that are late, and never leave one.

use std::time::Duration;

use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::cell::{HomeCell, ReadError};

/// By their age, so that the database's clock alone says when. Nothing is said by a null, and what was said stays. In one
/// order, so that two servers that write at the same time do not wait for each other.
const NOTE: &str = "
    INSERT INTO duties AS d (duty, finished_at, finished_by, covered_at, covered_by, failed_at, failed_by, error, late_after_ms)
    SELECT n.duty,
           p.now - make_interval(secs => n.finished_secs), CASE WHEN n.finished_secs IS NOT NULL THEN $6::text END,
           p.now - make_interval(secs => n.covered_secs), CASE WHEN n.covered_secs IS NOT NULL THEN $6::text END,
           p.now - make_interval(secs => n.failed_secs), CASE WHEN n.failed_secs IS NOT NULL THEN $6::text END,
           n.error, n.late_after_ms
      FROM (SELECT moment() AS now) AS p,
           unnest($1::text[], $2::float8[], $3::float8[], $4::float8[], $5::text[], $7::int8[])
             AS n (duty, finished_secs, covered_secs, failed_secs, error, late_after_ms)
     ORDER BY n.duty
        ON CONFLICT (duty) DO UPDATE
       SET finished_at = coalesce(EXCLUDED.finished_at, d.finished_at),
           finished_by = coalesce(EXCLUDED.finished_by, d.finished_by),
           covered_at = coalesce(EXCLUDED.covered_at, d.covered_at),
           covered_by = coalesce(EXCLUDED.covered_by, d.covered_by),
           failed_at = coalesce(EXCLUDED.failed_at, d.failed_at),
           failed_by = coalesce(EXCLUDED.failed_by, d.failed_by),
           error = coalesce(EXCLUDED.error, d.error),
           late_after_ms = EXCLUDED.late_after_ms";

/// One row at least, which says when it was read.
const LIST: &str = "
    SELECT p.now, d.duty, d.finished_at, d.finished_by, d.covered_at, d.covered_by, d.failed_at, d.failed_by, d.error
      FROM (SELECT moment() AS now) AS p
      LEFT JOIN duties d ON true
     ORDER BY d.duty
     LIMIT $1";

pub(crate) const STATEMENTS: &[&str] = &[NOTE, LIST];

/// The most duties that are listed; a build has about thirty.
const LISTED_MAX: i64 = 200;

/// The most characters of an error that are kept.
const ERROR_CHARS_MAX: usize = 400;

/// One server's news of a duty. An age says how long ago something was; without one there is nothing new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DutyNote {
    /// The duty.
    pub duty: &'static str,
    /// The age of the last pass that this server finished as a holder of the duty.
    pub finished: Option<Duration>,
    /// The age of the last pass that it finished because the duty was late.
    pub covered: Option<Duration>,
    /// The age of the last pass that failed, and why.
    pub failed: Option<(Duration, String)>,
    /// How long nobody may finish a pass before the duty is late.
    pub late_after: Duration,
}

/// The time at which something was done, and the process that did it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DutyDone {
    /// When.
    pub at: Timestamp,
    /// Host and process number.
    pub by: String,
}

/// The last passes of a duty on all servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DutyMark {
    /// The duty.
    pub duty: String,
    /// The last pass that a holder finished; none before the first.
    pub finished: Option<DutyDone>,
    /// The last pass that another server finished because the duty was late; none if it never was.
    pub covered: Option<DutyDone>,
    /// The last pass that failed, and why; none if none did.
    pub failed: Option<(DutyDone, String)>,
}

/// Records a process's news of its duties.
pub async fn note(cell: HomeCell<'_>, process: &str, notes: &[DutyNote]) -> Result<(), ReadError> {
    let secs = |age: Option<Duration>| age.map(|age| age.as_secs_f64());
    let failed = |note: &DutyNote| note.failed.as_ref().map(|(age, _)| *age);
    let words = |note: &DutyNote| {
        let error = note.failed.as_ref().map(|(_, error)| error.as_str());
        error.map(|error| semel_model::storable::excerpt(error, ERROR_CHARS_MAX))
    };
    let duties: Vec<&str> = notes.iter().map(|note| note.duty).collect();
    let finished: Vec<Option<f64>> = notes.iter().map(|note| secs(note.finished)).collect();
    let covered: Vec<Option<f64>> = notes.iter().map(|note| secs(note.covered)).collect();
    let failures: Vec<Option<f64>> = notes.iter().map(|note| secs(failed(note))).collect();
    let errors: Vec<Option<String>> = notes.iter().map(words).collect();
    let late_after =
        |note: &DutyNote| i64::try_from(note.late_after.as_millis()).unwrap_or(i64::MAX);
    let late_after: Vec<i64> = notes.iter().map(late_after).collect();
    let values: [&(dyn ToSql + Sync); 7] = [
        &duties,
        &finished,
        &covered,
        &failures,
        &errors,
        &process,
        &late_after,
    ];
    cell.reader().await?.execute(NOTE, &values).await?;
    Ok(())
}

/// Lists the last passes of all duties, with the database's time.
pub async fn list(cell: HomeCell<'_>) -> Result<(Timestamp, Vec<DutyMark>), ReadError> {
    let client = cell.reader().await?;
    let rows = client.query(LIST, &[&LISTED_MAX]).await?;
    let now = match rows.first() {
        Some(row) => row.get(0),
        None => unreachable!("a left join has a row for its left side"),
    };
    Ok((now, rows.iter().filter_map(mark).collect()))
}

fn mark(row: &Row) -> Option<DutyMark> {
    let done = |at: usize| -> Option<DutyDone> {
        let (time, by): (Option<Timestamp>, Option<String>) = (row.get(at), row.get(at + 1));
        time.zip(by).map(|(at, by)| DutyDone { at, by })
    };
    let error: Option<String> = row.get(8);
    Some(DutyMark {
        duty: row.get::<_, Option<String>>(1)?,
        finished: done(2),
        covered: done(4),
        failed: done(6).zip(error),
    })
}
