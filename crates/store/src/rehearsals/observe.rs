//! Looking at a rehearsal, and moving its clock.

use std::time::Duration;

use jiff::Timestamp;
use semel_model::run::RunState;
use semel_model::{EffectId, Guard, RunId, SessionId, WaitId};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::cell::{Cell, EveryCell, ReadError};
use crate::journal::{JournalRow, read_line};

/// What is due now, what is held by which session, and when the next thing is due by itself.
const PULSE: &str = "
    SELECT p.now,
           (SELECT count(*) FROM queue WHERE holder IS NULL AND due_at <= p.now)
               + (SELECT count(*) FROM outbox WHERE holder IS NOT NULL OR due_at <= p.now)
               + (SELECT count(*) FROM broadcasts WHERE due_at <= p.now)
               + (SELECT count(*) FROM named_effect_notices WHERE next_at <= p.now)
               + (SELECT count(*) FROM gate_exits WHERE at < p.now - interval '2 seconds')
               + (SELECT count(*) FROM tasks WHERE state = 'held' AND lease_until <= p.now),
           (SELECT count(*) FROM queue WHERE holder = $1),
           (SELECT count(*) FROM queue WHERE holder <> $1),
           least((SELECT min(due_at) FROM queue
                   WHERE holder IS NULL AND due_at > p.now AND due_at < 'infinity'),
                 (SELECT min(due_at) FROM outbox WHERE holder IS NULL AND due_at > p.now),
                 (SELECT min(due_at) FROM broadcasts WHERE due_at > p.now),
                 (SELECT min(next_at) FROM named_effect_notices WHERE next_at > p.now),
                 (SELECT min(at) + interval '2100 milliseconds' FROM gate_exits),
                 (SELECT min(lease_until) FROM tasks WHERE state = 'held' AND lease_until > p.now))
      FROM (SELECT moment() AS now) AS p";

const MOVE: &str = "
    WITH moved AS (
        UPDATE clock SET time_offset = time_offset + make_interval(secs => $1)
        RETURNING time_offset),
    carried AS (
        UPDATE sessions SET expires_at = expires_at + make_interval(secs => $1) WHERE id = $2)
    SELECT clock_timestamp() + time_offset FROM moved";

const RUNS: &str = "
    SELECT r.id, r.namespace_id, f.name, r.parent_id, r.state::text, r.result::text, r.fault::text
      FROM runs r
      JOIN releases l ON l.id = r.release_id
      JOIN flows f ON f.id = l.flow_id
     ORDER BY r.accepted_at, r.id";

const EFFECTS: &str = "
    SELECT id, namespace_id, run_id, step, guard::text, state::text, attempt, note
      FROM effects ORDER BY intended_at, id";

const JOURNAL: &str = "
    SELECT r.namespace_id, j.seq, j.at, j.events::text, j.run_id
      FROM journal j JOIN runs r ON r.id = j.run_id
     ORDER BY j.at, j.run_id, j.seq";

const OPEN: &str = "
    SELECT 'callback', r.namespace_id, w.run_id, w.id, coalesce(w.step, ''), ''
      FROM waits w JOIN runs r ON r.id = w.run_id
     WHERE w.state = 'open' AND NOT EXISTS (SELECT 1 FROM event_waits e WHERE e.wait_id = w.id)
     UNION ALL
    SELECT 'approval', namespace_id, run_id, id, step, '' FROM approvals WHERE state = 'open'
     UNION ALL
    SELECT 'task', namespace_id, run_id, id, step, queue FROM tasks WHERE state = 'open'
     ORDER BY 2, 4";

pub(crate) const STATEMENTS: &[&str] = &[PULSE, MOVE, RUNS, EFFECTS, JOURNAL, OPEN];

/// What a rehearsal has to do at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulse {
    /// The time.
    pub now: Timestamp,
    /// How much is due.
    pub due: i64,
    /// How many runs the session holds.
    pub held: i64,
    /// How many runs other sessions hold.
    pub held_by_others: i64,
    /// When the next thing is due.
    pub next_due: Option<Timestamp>,
}

/// A run of a rehearsal.
#[derive(Clone, Debug)]
pub struct StagedRun {
    /// The run.
    pub run: RunId,
    /// Its namespace.
    pub namespace_id: i32,
    /// Its flow.
    pub flow: String,
    /// The run that it is a child of.
    pub parent: Option<RunId>,
    /// Its state.
    pub state: RunState,
    /// Its result, as JSON text.
    pub result: Option<String>,
    /// Its fault, as JSON text.
    pub fault: Option<String>,
}

/// An effect of a rehearsal.
#[derive(Clone, Debug)]
pub struct StagedEffect {
    /// The effect.
    pub effect: EffectId,
    /// Its namespace.
    pub namespace_id: i32,
    /// Its run.
    pub run: RunId,
    /// Its step.
    pub step: String,
    /// How it is made safe.
    pub guard: Guard,
    /// Its state, as the ledger writes it.
    pub state: String,
    /// How many attempts were made.
    pub attempt: i32,
    /// What the ledger notes about it.
    pub note: Option<String>,
}

/// Something that a rehearsal's runs wait for, and that a person or a program answers.
#[derive(Clone, Debug)]
pub struct OpenWait {
    /// What it is.
    pub kind: OpenWaitKind,
    /// Its namespace.
    pub namespace_id: i32,
    /// The run that waits.
    pub run: RunId,
    /// Its identity: a wait's, or the effect's of a task.
    pub id: Uuid,
    /// The step.
    pub step: String,
    /// The queue of a task.
    pub queue: String,
}

impl OpenWait {
    /// The wait, where it is not a task.
    #[must_use]
    pub fn wait(&self) -> WaitId {
        WaitId::from_uuid(self.id)
    }
}

/// What answers a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenWaitKind {
    /// A request to its address.
    Callback,
    /// A person.
    Approval,
    /// A worker.
    Task,
}

/// Reads what there is to do.
///
/// # Errors
///
/// Where the database does not answer.
pub async fn take_pulse(cell: EveryCell<'_>, session: SessionId) -> Result<Pulse, ReadError> {
    let client = cell.reader().await?;
    let row = client.query_one(PULSE, &[session.as_uuid()]).await?;
    Ok(Pulse {
        now: row.get(0),
        due: row.get(1),
        held: row.get(2),
        held_by_others: row.get(3),
        next_due: row.get(4),
    })
}

/// Moves the clock of a rehearsal, and the end of one session with it. Gives the time.
///
/// # Errors
///
/// Where the database does not answer.
pub async fn jump(
    cell: &Cell,
    by: Duration,
    keep: Option<SessionId>,
) -> Result<Timestamp, ReadError> {
    let client = cell.reader().await?;
    let keep = keep.map(|session| *session.as_uuid());
    let row = client.query_one(MOVE, &[&by.as_secs_f64(), &keep]).await?;
    Ok(row.get(0))
}

/// Lists every run.
///
/// # Errors
///
/// Where the database does not answer.
pub async fn list_runs(cell: EveryCell<'_>) -> Result<Vec<StagedRun>, ReadError> {
    let rows = cell.reader().await?.query(RUNS, &[]).await?;
    let read = |row: &Row| StagedRun {
        run: RunId::from_uuid(row.get(0)),
        namespace_id: row.get(1),
        flow: row.get(2),
        parent: row.get::<_, Option<Uuid>>(3).map(RunId::from_uuid),
        // The column has no other values.
        state: row
            .get::<_, &str>(4)
            .parse()
            .unwrap_or(RunState::Quarantined),
        result: row.get(5),
        fault: row.get(6),
    };
    Ok(rows.iter().map(read).collect())
}

/// Lists every effect.
///
/// # Errors
///
/// Where the database does not answer.
pub async fn list_effects(cell: EveryCell<'_>) -> Result<Vec<StagedEffect>, ReadError> {
    let rows = cell.reader().await?.query(EFFECTS, &[]).await?;
    let read = |row: &Row| StagedEffect {
        effect: EffectId::from_uuid(row.get(0)),
        namespace_id: row.get(1),
        run: RunId::from_uuid(row.get(2)),
        step: row.get(3),
        // The column has no other values.
        guard: row.get::<_, &str>(4).parse().unwrap_or(Guard::Review),
        state: row.get(5),
        attempt: row.get(6),
        note: row.get(7),
    };
    Ok(rows.iter().map(read).collect())
}

/// Lists the journals of all runs, by time; each row with its namespace and its run.
///
/// # Errors
///
/// Where the database does not answer.
pub async fn list_journals(
    cell: EveryCell<'_>,
) -> Result<Vec<(i32, RunId, JournalRow)>, ReadError> {
    let rows = cell.reader().await?.query(JOURNAL, &[]).await?;
    let read = |row: &Row| (row.get(0), RunId::from_uuid(row.get(4)), read_line(row));
    Ok(rows.iter().map(read).collect())
}

/// Lists what runs wait for and a person or a program answers.
///
/// # Errors
///
/// Where the database does not answer.
pub async fn list_open(cell: EveryCell<'_>) -> Result<Vec<OpenWait>, ReadError> {
    let rows = cell.reader().await?.query(OPEN, &[]).await?;
    let read = |row: &Row| OpenWait {
        kind: match row.get(0) {
            "callback" => OpenWaitKind::Callback,
            "approval" => OpenWaitKind::Approval,
            _ => OpenWaitKind::Task,
        },
        namespace_id: row.get(1),
        run: RunId::from_uuid(row.get(2)),
        id: row.get(3),
        step: row.get(4),
        queue: row.get(5),
    };
    Ok(rows.iter().map(read).collect())
}
