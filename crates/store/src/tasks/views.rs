//! Tasks as the API shows them.

use jiff::Timestamp;
use semel_model::task::TaskState;
use semel_model::{EffectId, RunId};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::read_state;
use crate::cell::{EveryCell, ReadError, SlotCell};

const LIST: &str = "
    SELECT t.id, t.run_id, t.queue, t.step, t.state::text, t.attempt, t.worker, t.opened_at,
           t.lease_until, t.until, t.ended_at, t.input::text, t.answer::text
      FROM tasks t
     WHERE t.namespace_id = $1
       AND ($2::text IS NULL OR t.queue = $2)
       AND ($3::uuid IS NULL OR t.run_id = $3)
       AND ($4::text IS NULL OR t.state::text = $4)
       AND ($5 OR t.state IN ('open', 'held', 'lost'))
     ORDER BY t.opened_at DESC
     LIMIT $6";

const FIND: &str = "
    SELECT t.id, t.run_id, t.queue, t.step, t.state::text, t.attempt, t.worker, t.opened_at,
           t.lease_until, t.until, t.ended_at, t.input::text, t.answer::text
      FROM tasks t
     WHERE t.namespace_id = $1 AND t.id = $2";

pub(crate) const STATEMENTS: &[&str] = &[LIST, FIND];

/// A task as the API shows it.
#[derive(Clone, Debug)]
pub struct TaskView {
    /// The task: the effect's key.
    pub task: EffectId,
    /// Its run.
    pub run: RunId,
    /// The queue.
    pub queue: String,
    /// The step's path.
    pub step: String,
    /// Its state.
    pub state: TaskState,
    /// The number of the latest attempt.
    pub attempt: i32,
    /// What the latest worker calls itself.
    pub worker: Option<String>,
    /// When the latest attempt was opened.
    pub opened_at: Timestamp,
    /// When the worker that holds it counts as lost.
    pub lease_until: Option<Timestamp>,
    /// When its time is over in all.
    pub until: Option<Timestamp>,
    /// When the latest attempt ended.
    pub ended_at: Option<Timestamp>,
    /// What the worker gets, as JSON text.
    pub input: String,
    /// What the worker answered, as JSON text.
    pub answer: Option<String>,
}

/// Which tasks to list.
#[derive(Clone, Debug, Default)]
pub struct TaskFilter {
    /// Only of this queue.
    pub queue: Option<String>,
    /// Only of this run.
    pub run: Option<RunId>,
    /// Only in this state.
    pub state: Option<TaskState>,
    /// Ended ones too.
    pub all: bool,
}

/// Lists tasks, newest first; only those that are not over unless the filter asks for more.
pub async fn list(
    cell: EveryCell<'_>,
    namespace_id: i32,
    filter: &TaskFilter,
    limit: u16,
) -> Result<Vec<TaskView>, ReadError> {
    let run = filter.run.map(|run| *run.as_uuid());
    let state = filter.state.map(TaskState::as_str);
    let all = filter.all || state.is_some();
    let limit = i64::from(limit);
    let client = cell.reader().await?;
    let values: [&(dyn ToSql + Sync); 6] =
        [&namespace_id, &filter.queue, &run, &state, &all, &limit];
    let rows = client.query(LIST, &values).await?;
    Ok(rows.iter().map(read_view).collect())
}

/// Looks one task up.
pub async fn find(
    cell: SlotCell<'_>,
    namespace_id: i32,
    task: EffectId,
) -> Result<Option<TaskView>, ReadError> {
    let client = cell.reader().await?;
    let row = client
        .query_opt(FIND, &[&namespace_id, task.as_uuid()])
        .await?;
    Ok(row.as_ref().map(read_view))
}

fn read_view(row: &Row) -> TaskView {
    TaskView {
        task: EffectId::from_uuid(row.get(0)),
        run: RunId::from_uuid(row.get(1)),
        queue: row.get(2),
        step: row.get(3),
        state: read_state(row.get(4)),
        attempt: row.get(5),
        worker: row.get(6),
        opened_at: row.get(7),
        lease_until: row.get(8),
        until: row.get(9),
        ended_at: row.get(10),
        input: row.get(11),
        answer: row.get(12),
    }
}
