//! Answers of workers, on their way in.

use std::collections::{HashMap, HashSet};

use futures_util::future::try_join5;
use jiff::Timestamp;
use semel_model::task::TaskState;
use semel_model::{EffectId, InSlot, RunId, SeededBug, Slot, TokenId};
use serde_json::Value;
use tokio_postgres::types::{Json, ToSql};
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use super::{HEAR, LOCK_RUNS, read_state};
use crate::cell::Cell;
use crate::writer::connection::WriterConnection;
use crate::writer::{Batch, Writer};

/// Only who made the latest claim can answer.
const ANSWER: &str = "
    UPDATE tasks k
       SET state = t.state::task_state, answer = t.answer::json, answered_token = t.token,
           ended_at = (SELECT moment()), lease_until = NULL
      FROM unnest($1::uuid[], $2::int8[], $3::text[], $4::text[], $5::uuid[])
        AS t (id, token, state, answer, caller)
     WHERE k.id = t.id AND k.state IS NOT DISTINCT FROM 'held' AND k.token = t.token
       AND k.claimed_by[cardinality(k.claimed_by)] = t.caller
 RETURNING k.id";

const RECORDED: &str = "
    SELECT id, state::text, token, answered_token, answer, ended_at, claimed_by
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
    /// The API token that answers.
    pub caller: TokenId,
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
        /// Whether who answers made the claim whose token it names. Claims that are long past are
        /// forgotten.
        claimed: bool,
        /// Whether who answers gave the latest answer.
        answered: bool,
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
        let right = "AND k.claimed_by[cardinality(k.claimed_by)] = t.caller";
        let answer = SeededBug::TaskCallerIgnored.in_text(answer, right, "");
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
        let callers: Vec<Uuid> = sorted.iter().map(|item| *item.caller.as_uuid()).collect();
        let client = ready.client;
        let values: [&(dyn ToSql + Sync); 5] = [&ids, &tokens, &states, &answers, &callers];
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
            Some(row) => read_reply(row, item),
            None => TaskAnswerResult::Unknown,
        };
        Ok(items.iter().map(reply).collect())
    }
}

fn read_reply(row: &Row, item: &SubmittedAnswer) -> TaskAnswerResult {
    let (latest, answered_token) = (row.get(2), row.get::<_, Option<i64>>(3));
    let claimed_by: Vec<Uuid> = row.get(6);
    let is_own = |token| {
        claimer(&claimed_by, latest, token) == Some(item.caller)
            || SeededBug::TaskCallerIgnored.is_seeded()
    };
    TaskAnswerResult::Recorded {
        state: read_state(row.get(1)),
        claimed: is_own(item.token),
        answered: answered_token.is_some_and(is_own),
        answered_token,
        answer: row.get::<_, Option<Json<Value>>>(4).map(|Json(it)| it),
        at: row.get(5),
    }
}

/// Who made the claim of a token: the last of those who are known made the latest.
fn claimer(claimed_by: &[Uuid], latest: i64, token: i64) -> Option<TokenId> {
    let past = usize::try_from(latest.checked_sub(token)?).ok()?;
    let claimer = claimed_by.iter().rev().nth(past)?;
    Some(TokenId::from_uuid(*claimer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_token_belongs_to_who_made_its_claim() {
        let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let of = |token| claimer(&[one, two, one], 20, token).map(|id| *id.as_uuid());

        assert_eq!([of(20), of(19), of(18)], [Some(one), Some(two), Some(one)]);
        let none = [17, 1, 0, -1, 21, i64::MIN, i64::MAX];
        assert!(none.into_iter().all(|token| of(token).is_none()));
    }
}
