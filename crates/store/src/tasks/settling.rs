//! Answers of workers, on their way in.

use std::collections::{HashMap, HashSet};

use futures_util::future::try_join5;
use jiff::Timestamp;
use semel_model::task::TaskState;
use semel_model::{EffectId, InSlot, RunId, SeededBug, Slot};
use serde_json::Value;
use tokio_postgres::types::{Json, ToSql};
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use super::{HEAR, LOCK_RUNS, read_state};
use crate::cell::Cell;
use crate::writer::connection::WriterConnection;
use crate::writer::{Batch, Writer};

/// Only the worker whose claim is the latest can answer.
const ANSWER: &str = "
    UPDATE tasks k
       SET state = t.state::task_state, answer = t.answer::json, answered_token = t.token,
           ended_at = (SELECT moment()), lease_until = NULL
      FROM unnest($1::uuid[], $2::int8[], $3::text[], $4::text[]) AS t (id, token, state, answer)
     WHERE k.id = t.id AND k.state IS NOT DISTINCT FROM 'held' AND k.token = t.token
 RETURNING k.id";

const RECORDED: &str = "
    SELECT id, state::text, token, answered_token, answer, ended_at
      FROM tasks
     WHERE id = ANY ($1)";

pub(crate) const STATEMENTS: &[&str] = &[ANSWER, RECORDED];

/// A worker's answer on its way in.
#[derive(Clone, Debug)]
pub struct SubmittedAnswer {
    /// The task.
    pub task: EffectId,
    /// Its run.
    pub run: RunId,
    /// The token of the claim.
    pub token: i64,
    /// What happened to it: done, failed or lost.
    pub state: TaskState,
    /// What the worker says, as JSON text.
    pub answer: String,
}

/// The result of a worker's answer.
#[derive(Clone, Debug)]
pub enum TaskAnswerResult {
    /// It is recorded, and the run continues with it.
    First,
    /// Another answer is, or the task is not the worker's.
    Recorded {
        /// Where the task stands.
        state: TaskState,
        /// The token of the latest claim.
        token: i64,
        /// The token of the latest answer.
        answered_token: Option<i64>,
        /// The latest answer.
        answer: Option<Value>,
        /// When it was given.
        at: Option<Timestamp>,
    },
    /// There is no such task.
    Unknown,
}

/// The batch of one commit of answers.
pub struct TaskAnswerBatch;

/// Starts the writer that all answers of a process go through.
pub fn start_settling(cell: &Cell) -> Writer<TaskAnswerBatch> {
    Writer::start(cell, || TaskAnswerBatch)
}

impl Batch for TaskAnswerBatch {
    type Item = SubmittedAnswer;
    type Answer = TaskAnswerResult;
    type Gathered = HashSet<EffectId>;

    const LANES: usize = 1;

    fn slot(item: &SubmittedAnswer) -> Slot {
        item.run.slot()
    }

    fn subject(item: &SubmittedAnswer) -> u128 {
        item.task.as_uuid().as_u128()
    }

    /// Two answers to one task go down one after the other.
    fn admit(gathered: &mut HashSet<EffectId>, next: &SubmittedAnswer) -> bool {
        gathered.insert(next.task)
    }

    async fn write(
        &mut self,
        connection: &mut WriterConnection,
        items: &mut Vec<SubmittedAnswer>,
    ) -> Result<Vec<TaskAnswerResult>, Error> {
        let answer = SeededBug::TaskTokenIgnored.in_text(ANSWER, "AND k.token = t.token", "");
        let ready = connection
            .prepare(&[LOCK_RUNS, answer, HEAR, RECORDED])
            .await?;
        // Tasks of runs that have ended are not behind the lock of their run: they keep an order.
        let mut sorted: Vec<&SubmittedAnswer> = items.iter().collect();
        sorted.sort_unstable_by_key(|item| item.task);
        let ids: Vec<Uuid> = sorted.iter().map(|item| *item.task.as_uuid()).collect();
        let runs: Vec<Uuid> = sorted.iter().map(|item| *item.run.as_uuid()).collect();
        let tokens: Vec<i64> = sorted.iter().map(|item| item.token).collect();
        let states: Vec<&str> = sorted.iter().map(|item| item.state.as_str()).collect();
        let answers: Vec<&str> = sorted.iter().map(|item| item.answer.as_str()).collect();
        let client = ready.client;
        let values: [&(dyn ToSql + Sync); 4] = [&ids, &tokens, &states, &answers];
        let written = try_join5(
            client.batch_execute("BEGIN"),
            client.query(ready.statement(LOCK_RUNS), &[&runs]),
            client.query(ready.statement(answer), &values),
            client.execute(ready.statement(HEAR), &[&ids]),
            client.query(ready.statement(RECORDED), &[&ids]),
        )
        .await;
        let (_, _, answered, _, recorded) = match written {
            Ok(rows) => rows,
            Err(error) => {
                let _ = client.batch_execute("ROLLBACK").await;
                return Err(error);
            }
        };
        client.batch_execute("COMMIT").await?;
        let won: Vec<Uuid> = answered.iter().map(|row| row.get(0)).collect();
        let recorded: HashMap<Uuid, &Row> = recorded.iter().map(|row| (row.get(0), row)).collect();
        let reply = |item: &SubmittedAnswer| match recorded.get(item.task.as_uuid()) {
            Some(_) if won.contains(item.task.as_uuid()) => TaskAnswerResult::First,
            Some(row) => read_reply(row),
            None => TaskAnswerResult::Unknown,
        };
        Ok(items.iter().map(reply).collect())
    }
}

fn read_reply(row: &Row) -> TaskAnswerResult {
    TaskAnswerResult::Recorded {
        state: read_state(row.get(1)),
        token: row.get(2),
        answered_token: row.get(3),
        answer: row.get::<_, Option<Json<Value>>>(4).map(|Json(it)| it),
        at: row.get(5),
    }
}
