//! Tasks as the API shows them.

use jiff::Timestamp;
use semel_model::task::TaskState;
use semel_model::{EffectId, RunId};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::read_state;
use crate::cell::{EveryCell, ReadError, SlotCell};
use crate::listed::{Listed, NEWEST, PAGE_BYTES_MAX, Position, SEARCH_MAX, searched};

/// The columns that [`read_view`] reads, of the tasks that a condition names.
macro_rules! listed {
    ($condition:literal) => {
        concat!(
            "
    SELECT t.id, t.run_id, t.queue, t.step, t.state::text, t.attempt, t.worker, t.opened_at,
           t.lease_until, t.until, t.ended_at, t.input::text, t.answer::text
      FROM tasks t
     WHERE t.namespace_id = $1 AND (t.opened_at, t.id) < ($2, $3)",
            $condition,
            "
     ORDER BY t.opened_at DESC, t.id DESC
     LIMIT $4"
        )
    };
}

/// Chosen first, so that only the tasks of the page are read.
macro_rules! search {
    ($filter:literal) => {
        searched!(
            "
        SELECT t.id, t.opened_at AS at, t.state, t.queue
          FROM tasks t
         WHERE t.namespace_id = $1 AND (t.opened_at, t.id) < ($2, $3)
         ORDER BY t.opened_at DESC, t.id DESC
         LIMIT $6",
            concat!(
                "
             SELECT t.id, t.run_id, t.queue, t.step, t.state::text AS state, t.attempt, t.worker,
                    t.opened_at, t.lease_until, t.until, t.ended_at, t.input::text AS input,
                    t.answer::text AS answer
               FROM (SELECT id, at FROM scanned
                      WHERE state::text = ANY ($5)",
                $filter,
                "
                      ORDER BY at DESC, id DESC
                      LIMIT $4) AS s
               JOIN tasks t ON t.id = s.id"
            ),
            "$4"
        )
    };
}

const ALL: &str = listed!("");
const OF_RUN: &str =
    listed!(" AND t.id BETWEEN $6 AND $7 AND t.run_id = $8 AND t.state::text = ANY ($5)");
const OF_RUN_AND_QUEUE: &str = listed!(
    " AND t.id BETWEEN $6 AND $7 AND t.run_id = $8 AND t.state::text = ANY ($5) AND t.queue = $9"
);
const SEARCH: &str = search!("");
const SEARCH_OF_QUEUE: &str = search!(" AND queue = $7");

const FIND: &str = "
    SELECT t.id, t.run_id, t.queue, t.step, t.state::text, t.attempt, t.worker, t.opened_at,
           t.lease_until, t.until, t.ended_at, t.input::text, t.answer::text
      FROM tasks t
     WHERE t.namespace_id = $1 AND t.id = $2";

pub(crate) const STATEMENTS: &[&str] =
    &[ALL, OF_RUN, OF_RUN_AND_QUEUE, SEARCH, SEARCH_OF_QUEUE, FIND];

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
    /// Only behind this position, for the next page.
    pub before: Option<Position>,
}

/// Lists tasks, newest first; only those that are not over unless the filter asks for more. A page ends after
/// [`PAGE_BYTES_MAX`].
pub async fn list(
    cell: EveryCell<'_>,
    namespace_id: i32,
    filter: &TaskFilter,
    limit: u16,
) -> Result<Listed<TaskView>, ReadError> {
    let (at, id) = filter.before.unwrap_or(NEWEST);
    let most = i64::from(limit);
    let states: Vec<&str> = match (filter.state, filter.all) {
        (Some(state), _) => vec![state.as_str()],
        (None, true) => TaskState::ALL.iter().map(|it| it.as_str()).collect(),
        (None, false) => UNFINISHED.iter().map(|it| it.as_str()).collect(),
    };
    let (low, high) = filter.run.map_or(NO_RANGE, |run| run.key_range());
    let run = filter.run.map(|run| *run.as_uuid());
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&namespace_id, &at, &id, &most];
    let text = match (&run, &filter.queue) {
        (Some(run), queue) => {
            values.extend([&states as &(dyn ToSql + Sync), &low, &high, run]);
            queue.as_ref().map_or(OF_RUN, |_| OF_RUN_AND_QUEUE)
        }
        (None, None) if states.len() == TaskState::ALL.len() => ALL,
        (None, queue) => {
            values.extend([&states as &(dyn ToSql + Sync), &SEARCH_MAX]);
            queue.as_ref().map_or(SEARCH, |_| SEARCH_OF_QUEUE)
        }
    };
    if let Some(queue) = &filter.queue {
        values.push(queue);
    }
    let client = cell.reader().await?;
    let (rows, is_cut) = client.query_within(text, &values, PAGE_BYTES_MAX).await?;
    let position = |task: &TaskView| (task.opened_at, *task.task.as_uuid());
    let page = match text {
        SEARCH | SEARCH_OF_QUEUE => {
            Listed::read_searched(&rows, limit, SEARCH_MAX, read_view, position)
        }
        _ => Listed::read(&rows, limit, read_view, position),
    };
    Ok(page.cut_if(is_cut, position))
}

/// The states of tasks that are not over.
const UNFINISHED: [TaskState; 3] = [TaskState::Open, TaskState::Held, TaskState::Lost];

/// Of no run.
const NO_RANGE: (Uuid, Uuid) = (Uuid::nil(), Uuid::nil());

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
