//! The `runs` table: what each run is, and how it ended.

use std::collections::HashSet;

use jiff::Timestamp;
use jiff::civil::Date;
use semel_model::run::RunState;
use semel_model::{ClaimId, Key, RunId, SeededBug};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::cell::{EveryCell, ReadError, SlotCell};
use crate::listed::PAGE_BYTES_MAX;
use crate::pool::PooledClient;

mod amend;
mod list;
mod reopen;

pub use amend::{Amended, amend};
pub use list::{RunFilter, list};
pub use reopen::{ReopenResult, reopen, reopen_for_step};

/// The part of a batch's statement that writes what transitions make of the record.
pub(crate) const RECORDED: &str = ",
    recorded AS (
        UPDATE runs r
           SET state = t.state::run_state, result = t.result::json, fault = t.fault::json,
               fault_code = t.fault_code, has_inherited = r.has_inherited OR t.inherited,
               ended_at = CASE WHEN t.ended THEN (SELECT now FROM present) END
          FROM unnest($?::uuid[], $?::text[], $?::text[], $?::text[], $?::text[], $?::bool[], $?::bool[])
            AS t (id, state, result, fault, fault_code, inherited, ended)
         WHERE r.id = t.id)";

/// The columns that [`read_view`] reads.
macro_rules! select {
    ($result:literal, $filter:literal) => {
        concat!(
            "
    SELECT r.id, r.claim_id, r.key, f.name, l.number, r.state::text, q.stage::text,
           q.holder IS NOT NULL, r.accepted_at, r.ended_at, ",
            $result,
            ", r.fault,
           nullif(q.due_at, 'infinity'), r.partition_date, coalesce(q.cancel, false), r.parent_id, r.erased_at,
           r.closed_at
      FROM runs r
      JOIN releases l ON l.id = r.release_id
      JOIN flows f ON f.id = l.flow_id
      LEFT JOIN queue q ON q.run_id = r.id",
            $filter
        )
    };
}

const GET: &str = select!(
    "r.result",
    "
     WHERE r.namespace_id = $1 AND r.id = ANY ($2)"
);

/// Without results, of which many runs could have more than there is memory.
const GET_MANY: &str = select!(
    "NULL::json",
    "
     WHERE r.namespace_id = $1 AND r.id = ANY ($2)
     ORDER BY r.accepted_at DESC"
);

/// With results, in the order of their names.
const LIST_NAMED: &str = select!(
    "r.result",
    "
     WHERE r.namespace_id = $1 AND r.id = ANY ($2)
     ORDER BY array_position($2::uuid[], r.id)"
);

const STATES: &str = "SELECT id, state::text, result, fault FROM runs WHERE id = ANY ($1)";

const KNOWN: &str = "SELECT id FROM runs WHERE id = ANY ($1)";

const SUCCESSOR: &str = "
    SELECT c.run_id FROM runs r JOIN claims c ON c.id = r.claim_id
     WHERE r.id = $1 AND c.run_id <> r.id AND c.expires_at IS NOT NULL";

const RELEASES: &str = "
    SELECT r.id, r.release_id FROM runs r WHERE r.namespace_id = $1 AND r.id = ANY ($2)";

const RELEASE: &str =
    "SELECT release_id, partition_date FROM runs WHERE namespace_id = $1 AND id = $2";

const NAMESPACE: &str = "SELECT namespace_id FROM runs WHERE id = $1";

pub(crate) const LISTS: &[&str] = list::STATEMENTS;
pub(crate) const STATEMENTS: &[&str] = &[
    KNOWN,
    SUCCESSOR,
    GET,
    GET_MANY,
    LIST_NAMED,
    STATES,
    NAMESPACE,
    RELEASE,
    RELEASES,
    reopen::REOPEN,
    reopen::REOPEN_FOR_STEP,
    reopen::NAMED,
    amend::UNPARK,
    amend::EXTERNAL_ID,
];

/// A run as the API shows it.
#[derive(Clone, Debug)]
pub struct RunView {
    /// The run.
    pub id: RunId,
    /// The claim that made it.
    pub claim: ClaimId,
    /// Its key.
    pub key: Key,
    /// Its flow's name.
    pub flow: String,
    /// The number of its release.
    pub release: i32,
    /// What the record says.
    pub state: RunState,
    /// Why no worker holds it, if it has not ended.
    pub stage: Option<Stage>,
    /// Whether a worker holds it now.
    pub held: bool,
    /// When its delivery was accepted.
    pub accepted_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Its result, as JSON text.
    pub result: Option<String>,
    /// Its fault, as JSON text.
    pub fault: Option<String>,
    /// When it is due again; absent when only an operator or a callback wakes it.
    pub due_at: Option<Timestamp>,
    /// Which partition holds its journal and effects.
    pub partition_date: Date,
    /// Whether an operator asked for its end.
    pub cancelling: bool,
    /// Its parent run, if it is a child run.
    pub parent: Option<RunId>,
    /// When its payloads were erased.
    pub erased_at: Option<Timestamp>,
    /// Since when it is not resumed or replayed any more.
    pub closed_at: Option<Timestamp>,
}

/// Why a run that has not ended is not held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// A worker may take it now.
    Ready,
    /// It rests before another attempt.
    Retrying,
    /// It waits for a timer or a callback.
    Waiting,
    /// It is stopped until an operator acts.
    Stopped,
}

impl Stage {
    /// The stage's name, as the queue keeps it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Retrying => "retrying",
            Self::Waiting => "waiting",
            Self::Stopped => "stopped",
        }
    }

    fn read(text: &str) -> Self {
        match text {
            "ready" => Self::Ready,
            "retrying" => Self::Retrying,
            "waiting" => Self::Waiting,
            "stopped" => Self::Stopped,
            other => unreachable!("the queue has no stage {other}"),
        }
    }
}

impl RunView {
    /// The one word for the run's status.
    pub fn state_word(&self) -> &'static str {
        match (self.state, self.held, self.stage) {
            (RunState::Active, true, _) => "running",
            (RunState::Active, false, Some(Stage::Waiting)) => "waiting",
            (RunState::Active, false, Some(Stage::Retrying)) => "retrying",
            (RunState::Active, false, Some(Stage::Ready | Stage::Stopped) | None) => "queued",
            (state, _, _) => state.as_str(),
        }
    }
}

/// Looks one run up.
pub async fn find(
    cell: SlotCell<'_>,
    namespace_id: i32,
    run: RunId,
) -> Result<Option<RunView>, ReadError> {
    let client = cell.reader().await?;
    let ids = vec![*run.as_uuid()];
    let values: [&(dyn ToSql + Sync); 2] = [&namespace_id, &ids];
    let row = client.query_opt(of_namespace(GET), &values).await?;
    Ok(row.as_ref().map(read_view))
}

/// Looks several runs up, newest first, without their results.
pub async fn find_many(
    cell: EveryCell<'_>,
    namespace_id: i32,
    runs: &[RunId],
) -> Result<Vec<RunView>, ReadError> {
    let ids: Vec<Uuid> = runs.iter().map(|run| *run.as_uuid()).collect();
    let client = cell.reader().await?;
    let values: [&(dyn ToSql + Sync); 2] = [&namespace_id, &ids];
    let rows = client.query(of_namespace(GET_MANY), &values).await?;
    Ok(rows.iter().map(read_view).collect())
}

/// Lists runs in the order of their names, with their results; says whether some are left behind the last one, because of
/// [`PAGE_BYTES_MAX`].
pub async fn list_named(
    cell: EveryCell<'_>,
    namespace_id: i32,
    runs: &[RunId],
) -> Result<(Vec<RunView>, bool), ReadError> {
    let ids: Vec<Uuid> = runs.iter().map(|run| *run.as_uuid()).collect();
    let client = cell.reader().await?;
    let text = of_namespace(LIST_NAMED);
    let values: [&(dyn ToSql + Sync); 2] = [&namespace_id, &ids];
    let (rows, is_cut) = client.query_within(text, &values, PAGE_BYTES_MAX).await?;
    Ok((rows.iter().map(read_view).collect(), is_cut))
}

fn of_namespace(text: &'static str) -> &'static str {
    let wrong = "$1::int4 IS NOT NULL";
    SeededBug::NamespaceNotCompared.in_text(text, "r.namespace_id = $1", wrong)
}

/// The releases that runs are on.
pub async fn list_releases(
    cell: EveryCell<'_>,
    namespace_id: i32,
    runs: &[RunId],
) -> Result<Vec<(RunId, i32)>, ReadError> {
    let ids: Vec<Uuid> = runs.iter().map(|run| *run.as_uuid()).collect();
    let client = cell.reader().await?;
    let rows = client.query(RELEASES, &[&namespace_id, &ids]).await?;
    let read = |row: &Row| (RunId::from_uuid(row.get(0)), row.get(1));
    Ok(rows.iter().map(read).collect())
}

/// The release that a run is on, and the partition of its journal.
pub async fn find_release(
    cell: SlotCell<'_>,
    namespace_id: i32,
    run: RunId,
) -> Result<Option<(i32, Date)>, ReadError> {
    let client = cell.reader().await?;
    let row = client
        .query_opt(RELEASE, &[&namespace_id, run.as_uuid()])
        .await?;
    Ok(row.map(|row| (row.get(0), row.get(1))))
}

/// The state of a run, for requests that wait for its end.
#[derive(Clone, Debug)]
pub struct RunSnapshot {
    /// The run.
    pub run: RunId,
    /// What the record says.
    pub state: RunState,
    /// Its result, as JSON text.
    pub result: Option<String>,
    /// Its fault, as JSON text.
    pub fault: Option<String>,
}

/// How one run stands.
pub async fn find_snapshot(
    cell: SlotCell<'_>,
    run: RunId,
) -> Result<Option<RunSnapshot>, ReadError> {
    Ok(read_snapshots(&cell.reader().await?, &[run]).await?.pop())
}

/// The run that has the key of this one now, where another has it.
pub async fn find_successor(cell: SlotCell<'_>, run: RunId) -> Result<Option<RunId>, ReadError> {
    let client = cell.reader().await?;
    let row = client.query_opt(SUCCESSOR, &[run.as_uuid()]).await?;
    Ok(row.map(|row| RunId::from_uuid(row.get(0))))
}

/// Which of some runs of one slot there are.
pub async fn list_known(cell: SlotCell<'_>, runs: &[RunId]) -> Result<HashSet<RunId>, ReadError> {
    let ids: Vec<Uuid> = runs.iter().map(|run| *run.as_uuid()).collect();
    let rows = cell.reader().await?.query(KNOWN, &[&ids]).await?;
    Ok(rows
        .iter()
        .map(|row| RunId::from_uuid(row.get(0)))
        .collect())
}

/// How several runs stand.
pub async fn list_snapshots(
    cell: EveryCell<'_>,
    runs: &[RunId],
) -> Result<Vec<RunSnapshot>, ReadError> {
    read_snapshots(&cell.reader().await?, runs).await
}

async fn read_snapshots(
    client: &PooledClient,
    runs: &[RunId],
) -> Result<Vec<RunSnapshot>, ReadError> {
    let ids: Vec<Uuid> = runs.iter().map(|run| *run.as_uuid()).collect();
    let rows = client.query(STATES, &[&ids]).await?;
    Ok(rows
        .iter()
        .map(|row| RunSnapshot {
            run: RunId::from_uuid(row.get(0)),
            state: read_state(row.get(1)),
            result: read_json(row, 2),
            fault: read_json(row, 3),
        })
        .collect())
}

/// Whose run it is, in short.
pub async fn find_namespace(cell: SlotCell<'_>, run: RunId) -> Result<Option<i32>, ReadError> {
    let client = cell.reader().await?;
    let row = client.query_opt(NAMESPACE, &[run.as_uuid()]).await?;
    Ok(row.map(|row| row.get(0)))
}

pub(crate) fn read_state(text: &str) -> RunState {
    match text.parse() {
        Ok(state) => state,
        Err(_) => unreachable!("the record has no state {text}"),
    }
}

/// JSON as the text that it was written as.
pub(crate) fn read_json(row: &Row, column: usize) -> Option<String> {
    row.get::<_, Option<tokio_postgres::types::Json<Box<serde_json::value::RawValue>>>>(column)
        .map(|json| json.0.get().to_owned())
}

fn read_view(row: &Row) -> RunView {
    let key: &[u8] = row.get(2);
    let Ok(key) = Key::new(key) else {
        unreachable!("a run's key was a key when it came")
    };
    let state: &str = row.get(5);
    let stage: Option<&str> = row.get(6);
    RunView {
        id: RunId::from_uuid(row.get(0)),
        claim: ClaimId::from_uuid(row.get(1)),
        key,
        flow: row.get(3),
        release: row.get(4),
        state: read_state(state),
        stage: stage.map(Stage::read),
        held: row.get(7),
        accepted_at: row.get(8),
        ended_at: row.get(9),
        result: read_json(row, 10),
        fault: read_json(row, 11),
        due_at: row.get(12),
        partition_date: row.get(13),
        cancelling: row.get(14),
        parent: row.get::<_, Option<Uuid>>(15).map(RunId::from_uuid),
        erased_at: row.get(16),
        closed_at: row.get(17),
    }
}
