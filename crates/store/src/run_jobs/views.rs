//! Jobs as the API shows them.

use jiff::Timestamp;
use semel_model::{RunId, RunJobId};
use tokio_postgres::Row;

use crate::cell::{HomeCell, ReadError};
use crate::listed::{Listed, NEWEST, Position};

macro_rules! counted {
    ($condition:literal) => {
        concat!(
            "
    SELECT j.id, j.flow, j.verb, j.state, j.digest, j.actor, j.reason, j.created_at,
           i.runs, i.done, i.refused, j.stopped_because
      FROM run_jobs j
     CROSS JOIN LATERAL (
           SELECT count(*) AS runs, count(*) FILTER (WHERE state = 'done') AS done,
                  count(*) FILTER (WHERE state = 'refused') AS refused
             FROM run_job_items WHERE job_id = j.id) AS i
     WHERE j.namespace_id = $1",
            $condition
        )
    };
}

pub(super) const LIST: &str = counted!(
    " AND (j.created_at, j.id) < ($2, $3)
     ORDER BY j.created_at DESC, j.id DESC
     LIMIT $4"
);
pub(super) const FIND: &str = counted!(" AND j.id = $2");

pub(super) const REFUSED: &str = "
    SELECT run_id, code, note FROM run_job_items
     WHERE job_id = $1 AND state = 'refused'
     ORDER BY run_id
     LIMIT 100";

/// A job as the API shows it.
#[derive(Clone, Debug)]
pub struct JobView {
    /// The job.
    pub id: RunJobId,
    /// The flow of its runs.
    pub flow: String,
    /// What is done to them, in one word.
    pub verb: String,
    /// The state's name.
    pub state: String,
    /// The digest of its plan.
    pub digest: String,
    /// Who made it.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// How many runs it has.
    pub run_count: i64,
    /// For how many of them it was carried out.
    pub done_count: i64,
    /// For how many of them it is not.
    pub refused_count: i64,
    /// Why Semel stopped it, where it did.
    pub stopped_because: Option<String>,
}

/// Lists the jobs of a namespace, newest first: from the beginning, or behind the last one of a page.
pub async fn list(
    cell: HomeCell<'_>,
    namespace_id: i32,
    before: Option<Position>,
    limit: u16,
) -> Result<Listed<JobView>, ReadError> {
    let (at, id) = before.unwrap_or(NEWEST);
    let most = i64::from(limit);
    let client = cell.reader().await?;
    let rows = client
        .query(LIST, &[&namespace_id, &at, &id, &most])
        .await?;
    let position = |job: &JobView| (job.created_at, *job.id.as_uuid());
    Ok(Listed::read(&rows, limit, read, position))
}

/// Looks one job up.
pub async fn find(
    cell: HomeCell<'_>,
    namespace_id: i32,
    job: RunJobId,
) -> Result<Option<JobView>, ReadError> {
    let client = cell.reader().await?;
    let row = client
        .query_opt(FIND, &[&namespace_id, job.as_uuid()])
        .await?;
    Ok(row.as_ref().map(read))
}

fn read(row: &Row) -> JobView {
    JobView {
        id: RunJobId::from_uuid(row.get(0)),
        flow: row.get(1),
        verb: row.get(2),
        state: row.get(3),
        digest: row.get(4),
        actor: row.get(5),
        reason: row.get(6),
        created_at: row.get(7),
        run_count: row.get(8),
        done_count: row.get(9),
        refused_count: row.get(10),
        stopped_because: row.get(11),
    }
}

/// Lists runs that a job refused, each with why, as a word and in words.
pub async fn list_refused(
    cell: HomeCell<'_>,
    job: RunJobId,
) -> Result<Vec<(RunId, String, String)>, ReadError> {
    let rows = cell.reader().await?;
    let rows = rows.query(REFUSED, &[job.as_uuid()]).await?;
    let read = |row: &Row| (RunId::from_uuid(row.get(0)), row.get(1), row.get(2));
    Ok(rows.iter().map(read).collect())
}
