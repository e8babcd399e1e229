//! The `rehearsals` table: how far each rehearsal is, and what it showed.

use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::cell::{HomeCell, ReadError};
use crate::column_text::ColumnText;

const ASK: &str = "
    INSERT INTO rehearsals (id, namespace_id, flow, digest, facts, whole, asked_by)
    VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT (id) DO NOTHING";

/// Of a flow, the latest ended rehearsals are kept, and of each release the latest whole one.
const TRIM: &str = "
    DELETE FROM rehearsals
     WHERE namespace_id = $1 AND flow = $2 AND ended_at IS NOT NULL
       AND id NOT IN (SELECT id FROM rehearsals
                       WHERE namespace_id = $1 AND flow = $2
                       ORDER BY asked_at DESC LIMIT 50)
       AND id NOT IN (SELECT id
                        FROM (SELECT DISTINCT ON (r.digest, r.facts) r.id, r.asked_at
                                FROM rehearsals r
                                JOIN releases l ON l.digest = r.digest
                               WHERE r.namespace_id = $1 AND r.flow = $2 AND r.whole
                                 AND r.state IN ('passed', 'violated')
                               ORDER BY r.digest, r.facts, r.asked_at DESC) AS proofs
                       ORDER BY asked_at DESC LIMIT 200)";

const ADVANCE: &str = "
    UPDATE rehearsals
       SET state = CASE WHEN $3 > 0 THEN 'running'::rehearsal_state ELSE state END,
           cases_done = $2, cases_total = $3, seen_at = moment()
     WHERE id = $1 AND state IN ('queued', 'running')";

const FINISH: &str = "
    UPDATE rehearsals
       SET state = $2::text::rehearsal_state, report = $3::text::json, problem = $4,
           seen_at = moment(), ended_at = moment()
     WHERE id = $1 AND state IN ('queued', 'running')";

/// What [`read`] reads.
macro_rules! select {
    ($report:literal, $rest:literal) => {
        concat!(
            "
    SELECT id, flow, digest,
           CASE WHEN state IN ('queued', 'running') AND seen_at < moment() - interval '1 minute'
                THEN 'stopped' ELSE state::text END,
           cases_done, cases_total, ",
            $report,
            "::text,
           CASE WHEN state IN ('queued', 'running') AND seen_at < moment() - interval '1 minute'
                THEN 'the server that rehearsed it is gone: ask again' ELSE problem END,
           asked_at, ended_at, whole
      FROM rehearsals
     WHERE namespace_id = $1",
            $rest
        )
    };
}

const FIND: &str = select!("report", " AND id = $2");

/// Without their reports, which may be long. How many there are, `TRIM` bounds.
const OF_FLOW: &str = select!(
    "NULL",
    " AND flow = $2
     ORDER BY asked_at DESC, id DESC
     LIMIT 500"
);
const OF_RELEASE: &str = select!(
    "NULL",
    " AND flow = $2
       AND digest = (SELECT l.digest FROM releases l JOIN flows f ON f.id = l.flow_id
                      WHERE f.namespace_id = $1 AND f.name = $2 AND l.number = $3)
     ORDER BY asked_at DESC, id DESC
     LIMIT 500"
);

/// The latest whole rehearsal of each digest with the same facts.
const LATEST: &str = "
    SELECT DISTINCT ON (flow, digest, facts) digest, facts, state = 'passed', ended_at, flow
      FROM rehearsals
     WHERE namespace_id = $1 AND flow = ANY ($2) AND whole AND state IN ('passed', 'violated')
     ORDER BY flow, digest, facts, asked_at DESC";

const TRIED: &str = "
    SELECT count(*) FILTER (WHERE asked_by = $5),
           count(*) FILTER (WHERE state IN ('queued', 'running')
                              AND seen_at >= moment() - interval '1 minute') > 0
      FROM rehearsals
     WHERE namespace_id = $1 AND flow = $2 AND digest = $3 AND facts = $4 AND whole";

pub(crate) const STATEMENTS: &[&str] = &[
    ASK, TRIM, ADVANCE, FINISH, FIND, OF_FLOW, OF_RELEASE, LATEST, TRIED,
];

/// A rehearsal that is asked for.
#[derive(Clone, Debug)]
pub struct RehearsalRow {
    /// Chosen by the client.
    pub id: Uuid,
    /// Whose it is.
    pub namespace_id: i32,
    /// The flow.
    pub flow: String,
    /// The digest of what is rehearsed.
    pub digest: String,
    /// What its connections say.
    pub facts: String,
    /// Whether every example and every fault is played.
    pub whole: bool,
    /// Who asks.
    pub asked_by: String,
}

/// A rehearsal, as people see it.
#[derive(Clone, Debug)]
pub struct RehearsalView {
    /// The rehearsal.
    pub id: Uuid,
    /// The flow.
    pub flow: String,
    /// The digest of what is rehearsed.
    pub digest: String,
    /// Its state: `queued`, `running`, `passed`, `violated` or `stopped`.
    pub state: String,
    /// How many cases were begun.
    pub done: i32,
    /// How many there are.
    pub total: i32,
    /// The report, as JSON text.
    pub report: Option<String>,
    /// Why there is no report.
    pub problem: Option<String>,
    /// When it was asked for.
    pub asked_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Whether every example and every fault is played.
    pub whole: bool,
}

/// How often a release was to be rehearsed with the same facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RehearsalTries {
    /// How often one asked for it.
    pub times: i64,
    /// Whether a server is at it, whoever asked.
    pub under_way: bool,
}

/// What the latest rehearsal of a digest with the same facts showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rehearsed {
    /// The flow.
    pub flow: String,
    /// The digest.
    pub digest: String,
    /// What the connections said.
    pub facts: String,
    /// Whether it passed.
    pub passed: bool,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

/// How a rehearsal ended.
#[derive(Clone, Debug)]
pub enum RehearsalEnd {
    /// With a report, as JSON text; and whether it passed.
    Judged {
        /// Whether no case violates a promise.
        passed: bool,
        /// The report.
        report: String,
    },
    /// Without one.
    Stopped {
        /// Why.
        problem: String,
    },
}

/// Records that a rehearsal is asked for. False where it was before.
///
/// # Errors
///
/// Where the database does not answer.
pub async fn ask(cell: HomeCell<'_>, row: &RehearsalRow) -> Result<bool, ReadError> {
    let client = cell.reader().await?;
    let made = client
        .execute(
            ASK,
            &[
                &row.id,
                &row.namespace_id,
                &row.flow,
                &row.digest,
                &row.facts,
                &row.whole,
                &row.asked_by,
            ],
        )
        .await?;
    client
        .execute(TRIM, &[&row.namespace_id, &row.flow])
        .await?;
    Ok(made == 1)
}

/// Records how far a rehearsal is.
///
/// # Errors
///
/// Where the database does not answer.
pub async fn advance(
    cell: HomeCell<'_>,
    id: Uuid,
    (done, total): (i32, i32),
) -> Result<(), ReadError> {
    let client = cell.reader().await?;
    client.execute(ADVANCE, &[&id, &done, &total]).await?;
    Ok(())
}

/// Records how a rehearsal ended. May be repeated.
///
/// # Errors
///
/// Where the database does not answer.
pub async fn finish(cell: HomeCell<'_>, id: Uuid, end: &RehearsalEnd) -> Result<(), ReadError> {
    let (state, report, problem) = match end {
        RehearsalEnd::Judged { passed, report } => {
            let state = if *passed { "passed" } else { "violated" };
            (state, Some(report), None)
        }
        RehearsalEnd::Stopped { problem } => ("stopped", None, Some(ColumnText::words(problem))),
    };
    let client = cell.reader().await?;
    client
        .execute(FINISH, &[&id, &state, &report, &problem])
        .await?;
    Ok(())
}

/// Finds a rehearsal of a namespace.
///
/// # Errors
///
/// Where the database does not answer.
pub async fn find(
    cell: HomeCell<'_>,
    namespace_id: i32,
    id: Uuid,
) -> Result<Option<RehearsalView>, ReadError> {
    let client = cell.reader().await?;
    let row = client.query_opt(FIND, &[&namespace_id, &id]).await?;
    Ok(row.as_ref().map(read))
}

fn read(row: &Row) -> RehearsalView {
    RehearsalView {
        id: row.get(0),
        flow: row.get(1),
        digest: row.get(2),
        state: row.get(3),
        done: row.get(4),
        total: row.get(5),
        report: row.get(6),
        problem: row.get(7),
        asked_at: row.get(8),
        ended_at: row.get(9),
        whole: row.get(10),
    }
}

/// Lists the rehearsals of a flow, the newest first, without their reports.
///
/// # Errors
///
/// Where the database does not answer.
pub async fn list_of_flow(
    cell: HomeCell<'_>,
    namespace_id: i32,
    flow: &str,
) -> Result<Vec<RehearsalView>, ReadError> {
    let client = cell.reader().await?;
    let rows = client.query(OF_FLOW, &[&namespace_id, &flow]).await?;
    Ok(rows.iter().map(read).collect())
}

/// Lists the rehearsals of one release of a flow, the latest first, without their reports.
///
/// # Errors
///
/// Where the database does not answer.
pub async fn list_of_release(
    cell: HomeCell<'_>,
    namespace_id: i32,
    (flow, number): (&str, i32),
) -> Result<Vec<RehearsalView>, ReadError> {
    let client = cell.reader().await?;
    let rows = client
        .query(OF_RELEASE, &[&namespace_id, &flow, &number])
        .await?;
    Ok(rows.iter().map(read).collect())
}

/// How often one asked for a whole rehearsal of a digest with these facts, and whether a server is
/// at it.
///
/// # Errors
///
/// Where the database does not answer.
pub async fn count_tried(
    cell: HomeCell<'_>,
    (namespace_id, flow): (i32, &str),
    (digest, facts): (&str, &str),
    asked_by: &str,
) -> Result<RehearsalTries, ReadError> {
    let client = cell.reader().await?;
    let row = client
        .query_one(TRIED, &[&namespace_id, &flow, &digest, &facts, &asked_by])
        .await?;
    Ok(RehearsalTries {
        times: row.get(0),
        under_way: row.get(1),
    })
}

/// Lists what the latest whole rehearsal showed of each digest of some flows, for each of its facts.
///
/// # Errors
///
/// Where the database does not answer.
pub async fn list_latest(
    cell: HomeCell<'_>,
    namespace_id: i32,
    flows: &[&str],
) -> Result<Vec<Rehearsed>, ReadError> {
    let client = cell.reader().await?;
    let rows = client.query(LATEST, &[&namespace_id, &flows]).await?;
    let read = |row: &Row| Rehearsed {
        flow: row.get(4),
        digest: row.get(0),
        facts: row.get(1),
        passed: row.get(2),
        ended_at: row.get(3),
    };
    Ok(rows.iter().map(read).collect())
}
