//! The `run_jobs` and `run_job_items` tables: sets of runs that an operator cancels or resumes together.
//!
//! The set is frozen when a job is made, from the plan whose digest the operator names. A server takes
//! a job by moving its due time ahead; if it dies, another takes the job then. Namespaces take turns
//! (`turns.rs`), however many jobs each has. What is done to a run
//! commits with an audit record that names the job, so that a server which finds a run without its note
//! knows whether another one did it and died.

mod candidates;
mod views;

pub use candidates::{Candidates, JobRange, PlannedRun, list_candidates};
pub use views::{JobView, find, list, list_refused};

use semel_model::{RunId, RunJobId, TokenId};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::audit::{self, AuditEntry};
use crate::cell::{HomeCell, ReadError};
use crate::column_text::ColumnText;
use crate::turns::{NamespaceTurns, turns};

/// The most runs of one job.
pub const JOB_RUNS_MAX: i64 = 10_000;

/// How long a server may be at a job before another takes it, in seconds.
const HOLD_SECS: f64 = 5.0;

/// Old jobs go when new ones come, a few at a time.
const FORGET: &str = "
    DELETE FROM run_jobs
     WHERE id IN (SELECT id FROM run_jobs
                   WHERE namespace_id = $1 AND created_at < (SELECT moment()) - interval '90 days'
                     AND state <> 'running'
                   ORDER BY created_at LIMIT 10)";

const CREATE: &str = "
    INSERT INTO run_jobs (id, namespace_id, flow, verb, digest, actor, reason, token_id, due_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, moment())";

const ADD: &str = "
    INSERT INTO run_job_items (job_id, run_id, planned_state, planned_seq)
    SELECT $1, t.run_id, t.state, t.seq
      FROM unnest($2::uuid[], $3::text[], $4::int4[]) AS t (run_id, state, seq)";

const TAKE: &str = concat!(
    turns!("run_jobs", "t.state = 'running'"),
    ",
    due AS (
        SELECT d.id
          FROM turns s
         CROSS JOIN LATERAL (SELECT j.id
                               FROM run_jobs j
                              WHERE j.state = 'running' AND j.namespace_id = s.namespace_id
                                AND j.due_at <= (SELECT now FROM present)
                              ORDER BY j.due_at
                              LIMIT 1
                                FOR UPDATE OF j SKIP LOCKED) d
         LIMIT 1)
    UPDATE run_jobs j
       SET due_at = moment() + make_interval(secs => $3)
     WHERE j.id = (SELECT id FROM due)
 RETURNING j.id, j.namespace_id, j.verb, j.actor, j.reason, j.token_id"
);

const LEFT: &str = "
    SELECT run_id, attempts, planned_state, planned_seq FROM run_job_items
     WHERE job_id = $1 AND state = 'left'
     ORDER BY attempts, run_id
     LIMIT $2";

const NOTE: &str = "
    UPDATE run_job_items SET state = $3, code = $4, note = $5
     WHERE job_id = $1 AND run_id = $2 AND state = 'left'";

const POSTPONE: &str = "
    UPDATE run_job_items SET attempts = attempts + 1 WHERE job_id = $1 AND run_id = $2";

/// The job is complete where no run is left; otherwise it is due again.
const RETURN: &str = "
    UPDATE run_jobs j
       SET state = CASE WHEN EXISTS (SELECT 1 FROM run_job_items i
                                      WHERE i.job_id = j.id AND i.state = 'left') THEN 'running'
                        ELSE 'done' END,
           due_at = moment() + make_interval(secs => $2)
     WHERE j.id = $1 AND j.state = 'running'";

const STOP: &str = "
    UPDATE run_jobs SET state = 'stopped'
     WHERE id = $1 AND namespace_id = $2 AND state = 'running'";

const END: &str = "
    UPDATE run_jobs SET state = 'stopped', stopped_because = $2
     WHERE id = $1 AND state = 'running'";

const RUNNING: &str = "SELECT state = 'running' FROM run_jobs WHERE id = $1";

pub(crate) const STATEMENTS: &[&str] = &[
    candidates::SCAN,
    candidates::OPEN,
    FORGET,
    CREATE,
    ADD,
    TAKE,
    LEFT,
    NOTE,
    POSTPONE,
    RETURN,
    STOP,
    END,
    RUNNING,
    views::LIST,
    views::FIND,
    views::REFUSED,
];

/// What is done to runs together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobVerb {
    /// They are cancelled.
    Cancel,
    /// They are resumed.
    Resume,
}

impl JobVerb {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Resume => "resume",
        }
    }
}

/// A job to make.
#[derive(Clone, Debug)]
pub struct NewJob<'a> {
    /// The job.
    pub id: RunJobId,
    /// The namespace.
    pub namespace_id: i32,
    /// The flow.
    pub flow: &'a str,
    /// What is done to its runs.
    pub verb: JobVerb,
    /// The digest of the plan.
    pub digest: &'a str,
    /// Who makes it.
    pub actor: &'a str,
    /// The token in whose name it acts.
    pub token: Option<TokenId>,
    /// Why.
    pub reason: &'a str,
}

/// Makes a job of some runs; the act is recorded in the same commit.
pub async fn create(
    cell: HomeCell<'_>,
    job: &NewJob<'_>,
    runs: &[PlannedRun],
    act: &AuditEntry,
) -> Result<(), ReadError> {
    let ids: Vec<Uuid> = runs.iter().map(|it| *it.run.as_uuid()).collect();
    let states: Vec<&str> = runs.iter().map(|it| it.state.as_str()).collect();
    let seqs: Vec<i32> = runs.iter().map(|it| it.seq).collect();
    let token = job.token.map(|token| *token.as_uuid());
    let values: [&(dyn ToSql + Sync); 8] = [
        job.id.as_uuid(),
        &job.namespace_id,
        &job.flow,
        &job.verb.as_str(),
        &job.digest,
        &job.actor,
        &job.reason,
        &token,
    ];
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    tx.execute(FORGET, &[&job.namespace_id]).await?;
    tx.execute(CREATE, &values).await?;
    let items: [&(dyn ToSql + Sync); 4] = [job.id.as_uuid(), &ids, &states, &seqs];
    tx.execute(ADD, &items).await?;
    audit::append(&tx, act).await?;
    tx.commit().await?;
    Ok(())
}

/// A job that a server works on.
#[derive(Clone, Debug)]
pub struct TakenJob {
    /// The job.
    pub id: RunJobId,
    /// The namespace.
    pub namespace_id: i32,
    /// What is done to its runs.
    pub verb: JobVerb,
    /// Who made it.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// The token in whose name it acts.
    pub token: Option<TokenId>,
}

/// Takes a job that is due, of the namespace whose turn it is, so that no other server works on it for a while.
pub async fn take(
    cell: HomeCell<'_>,
    turns: &mut NamespaceTurns,
) -> Result<Option<TakenJob>, ReadError> {
    let values: [&(dyn ToSql + Sync); 3] = [&turns.last(), &Vec::<i32>::new(), &HOLD_SECS];
    let row = cell.reader().await?.query_opt(TAKE, &values).await?;
    turns.note(row.iter().map(|row| row.get(1)));
    Ok(row.map(|row: Row| TakenJob {
        id: RunJobId::from_uuid(row.get(0)),
        namespace_id: row.get(1),
        verb: read_verb(row.get(2)),
        actor: row.get(3),
        reason: row.get(4),
        token: row.get::<_, Option<Uuid>>(5).map(TokenId::from_uuid),
    }))
}

fn read_verb(word: &str) -> JobVerb {
    match word {
        "resume" => JobVerb::Resume,
        "cancel" => JobVerb::Cancel,
        other => unreachable!("no job is to {other}"),
    }
}

/// A run of a job that is left.
#[derive(Clone, Debug)]
pub struct JobItem {
    /// The run.
    pub run: RunId,
    /// How many attempts the database or a worker cut short.
    pub attempts: i32,
    /// The state that the operator was shown.
    pub planned_state: String,
    /// The number of the latest row of its journal then.
    pub planned_seq: i32,
}

/// Lists runs of a job that are left.
pub async fn list_left(
    cell: HomeCell<'_>,
    job: RunJobId,
    limit: i64,
) -> Result<Vec<JobItem>, ReadError> {
    let rows = cell.reader().await?;
    let rows = rows.query(LEFT, &[job.as_uuid(), &limit]).await?;
    let read = |row: &Row| JobItem {
        run: RunId::from_uuid(row.get(0)),
        attempts: row.get(1),
        planned_state: row.get(2),
        planned_seq: row.get(3),
    };
    Ok(rows.iter().map(read).collect())
}

/// What became of a run of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobOutcome {
    /// It was carried out.
    Done,
    /// It is not carried out.
    Refused {
        /// Why, as a stable word.
        code: String,
        /// Why, in words.
        note: String,
    },
    /// The database or a worker was in the way: it is tried again.
    Postponed,
}

/// Notes what became of a run of a job. What another server noted first stays.
pub async fn note(
    cell: HomeCell<'_>,
    job: RunJobId,
    run: RunId,
    outcome: &JobOutcome,
) -> Result<(), ReadError> {
    let client = cell.reader().await?;
    let (state, code, words) = match outcome {
        JobOutcome::Done => ("done", None, None),
        JobOutcome::Refused { code, note } => {
            ("refused", Some(code), Some(ColumnText::words(note)))
        }
        JobOutcome::Postponed => {
            client
                .execute(POSTPONE, &[job.as_uuid(), run.as_uuid()])
                .await?;
            return Ok(());
        }
    };
    let values: [&(dyn ToSql + Sync); 5] = [job.as_uuid(), run.as_uuid(), &state, &code, &words];
    client.execute(NOTE, &values).await?;
    Ok(())
}

/// Returns a job, due again after so many seconds unless nothing of it is left.
pub async fn give_back(cell: HomeCell<'_>, job: RunJobId, secs: f64) -> Result<(), ReadError> {
    let client = cell.reader().await?;
    client.execute(RETURN, &[job.as_uuid(), &secs]).await?;
    Ok(())
}

/// Stops a job that runs: what is left of it is left alone. The act is recorded in the same commit. False
/// where it does not run, or is none of this namespace.
pub async fn stop(
    cell: HomeCell<'_>,
    namespace_id: i32,
    job: RunJobId,
    act: &AuditEntry,
) -> Result<bool, ReadError> {
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    if tx.execute(STOP, &[job.as_uuid(), &namespace_id]).await? == 0 {
        return Ok(false);
    }
    audit::append(&tx, act).await?;
    tx.commit().await?;
    Ok(true)
}

/// Ends a job in whose name nothing more is done; the act is recorded in the same commit.
pub async fn end(
    cell: HomeCell<'_>,
    job: RunJobId,
    why: &str,
    act: &AuditEntry,
) -> Result<(), ReadError> {
    let why = ColumnText::words(why);
    let values: [&(dyn ToSql + Sync); 2] = [job.as_uuid(), &why];
    audit::execute(cell, END, &values, act).await?;
    Ok(())
}

/// Whether a job runs.
pub async fn is_running(cell: HomeCell<'_>, job: RunJobId) -> Result<bool, ReadError> {
    let client = cell.reader().await?;
    let row = client.query_opt(RUNNING, &[job.as_uuid()]).await?;
    Ok(row.is_some_and(|row| row.get(0)))
}
