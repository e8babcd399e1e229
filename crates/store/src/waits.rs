//! The `waits` table: pauses that a callback can end, and the callbacks that ended them.
//!
//! A wait leaves `open` once: the first callback, timeout or withdrawal wins. A callback that comes
//! before its wait opens leaves a row that the wait finds when it does. Commit point: the `COMMIT`
//! of [`CallbackBatch`].

mod views;

pub use views::{WaitView, find, list, list_of_event_values, list_of_run};

use std::collections::HashMap;

use futures_util::future::try_join5;
use jiff::Timestamp;
use semel_model::wait::WaitState;
use semel_model::{InSlot, RunId, Slot, WaitId, json};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio_postgres::types::Json;
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use crate::audit::{self, AuditEntry};
use crate::cell::{Cell, ReadError, SlotCell};
use crate::wakes::wakes;
use crate::writer::connection::WriterConnection;
use crate::writer::{Batch, Writer};

/// Opens waits of a transition. An early callback's row stays as it is; a wait that was open before
/// opens again, because its run was resumed: it had timed out, was withdrawn, or a called run had
/// failed. What answered it stays in its row, so that the same message does not answer it twice.
pub(crate) const OPEN: &str = "
    INSERT INTO waits (id, run_id, namespace_id, state, step, opened_at, until)
    SELECT t.id, t.run_id, t.namespace_id, 'open', t.step, (SELECT moment()), t.until
      FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::timestamptz[], $5::int4[])
        AS t (id, run_id, step, until, namespace_id)
        ON CONFLICT (id) DO UPDATE
       SET run_id = EXCLUDED.run_id, namespace_id = EXCLUDED.namespace_id, step = EXCLUDED.step, opened_at = EXCLUDED.opened_at,
           state = CASE WHEN waits.opened_at IS NULL THEN waits.state ELSE 'open' END,
           until = CASE WHEN waits.opened_at IS NULL THEN waits.until ELSE EXCLUDED.until END,
           ended_at = CASE WHEN waits.opened_at IS NULL THEN waits.ended_at END";

/// Makes runs due that fell asleep at a wait whose callback was there before. In the commit in
/// which they do, behind its fence: a run that keeps its worker has passed the wait.
pub(crate) const WAKE_EARLY: &str = "
    UPDATE queue q
       SET due_at = (SELECT moment()), stage = 'ready'
      FROM waits w
     WHERE w.id = ANY ($1) AND w.state = 'answered' AND q.run_id = w.run_id
       AND q.holder IS NULL";

/// Moves the times of waits by that of a pause.
pub(crate) const DEFER: &str = "
    UPDATE waits w
       SET until = t.until
      FROM unnest($1::uuid[], $2::timestamptz[]) AS t (id, until)
     WHERE w.id = t.id AND w.state IS NOT DISTINCT FROM 'open'";

/// Ends waits whose time came; refuses the transition when a callback was first.
pub(crate) const ELAPSE: &str = "
    WITH ended AS (
        UPDATE waits
           SET state = 'elapsed', ended_at = moment()
         WHERE id = ANY ($1) AND state = 'open'
     RETURNING 1)
    SELECT all_or_nothing(count(*), $2) FROM ended";

/// Ends waits of runs that end.
pub(crate) const CANCEL: &str = "
    UPDATE waits
       SET state = 'cancelled', ended_at = moment()
     WHERE id = ANY ($1) AND state = 'open'";

pub(crate) const LOAD: &str = "
    SELECT w.run_id, w.id, w.payload
      FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS t (run_id, low, high)
      JOIN waits w ON w.id BETWEEN t.low AND t.high AND w.run_id = t.run_id
     WHERE w.state = 'answered'
     ORDER BY w.run_id";

/// What answered the waits of one run that is not the first of its key.
const ANSWERS: &str = "
    SELECT w.run_id, w.id, w.payload
      FROM waits w
     WHERE w.id BETWEEN $2 AND $3 AND w.run_id = $1 AND w.state = 'answered'";

const LOCK_RUNS: &str = "
    SELECT run_id FROM queue WHERE run_id = ANY ($1) ORDER BY run_id FOR UPDATE";

/// An answer only ever meets an open wait, or none yet of a run that has not ended; or that has not
/// begun, where the run in which it begins has not ended. A wait that opened again still holds what
/// answered it before, and is not answered by that.
const ANSWER: &str = "
    INSERT INTO waits (id, run_id, state, ended_at, payload)
    SELECT t.id, t.run_id, 'answered', (SELECT moment()), t.payload::json
      FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[])
        AS t (id, run_id, begins_in, payload)
     WHERE EXISTS (SELECT 1 FROM queue q WHERE q.run_id = t.run_id)
        OR EXISTS (SELECT 1 FROM queue q WHERE q.run_id = t.begins_in)
       AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = t.run_id)
        ON CONFLICT (id) DO UPDATE
       SET state = 'answered', ended_at = EXCLUDED.ended_at, payload = EXCLUDED.payload,
           run_id = EXCLUDED.run_id,
           opened_at = CASE WHEN waits.run_id = EXCLUDED.run_id THEN waits.opened_at END
     WHERE waits.state = 'open' AND waits.payload::text IS DISTINCT FROM EXCLUDED.payload::text
        OR waits.run_id <> EXCLUDED.run_id AND waits.state <> 'answered'
 RETURNING id";

/// Wakes the runs `$2` of waits that are answered: other rows of the queue are not locked. An
/// answer before its wait opened wakes nobody, because the run finds it when it comes to the wait
/// ([`WAKE_EARLY`]).
const WAKE: &str = concat!(
    "
    UPDATE queue q
       SET ",
    wakes!("(SELECT moment())"),
    ",
           stage = CASE WHEN q.holder IS NULL THEN 'ready' ELSE q.stage END
      FROM waits w
     WHERE w.id = ANY ($1) AND w.state = 'answered' AND num_nulls(w.opened_at) = 0
       AND q.run_id = w.run_id AND q.run_id = ANY ($2)
       AND (q.holder IS NOT NULL OR q.stage = 'waiting') AND (q.holder IS NULL OR NOT q.woken)"
);

const RECORDED: &str = "
    SELECT id, state::text, ended_at FROM waits WHERE id = ANY ($1)";

const HOLDER: &str = "SELECT run_id FROM waits WHERE id = $1";

pub(crate) const LISTS: &[&str] = views::STATEMENTS;
pub(crate) const STATEMENTS: &[&str] = &[
    OPEN,
    WAKE_EARLY,
    DEFER,
    ELAPSE,
    CANCEL,
    LOAD,
    ANSWERS,
    LOCK_RUNS,
    ANSWER,
    WAKE,
    RECORDED,
    HOLDER,
    views::FIND,
    views::LIST_OF_VALUE,
];

/// A callback that came, as the run's next turn reads it. It stays text until that turn has memory for
/// what it becomes.
#[derive(Clone, Debug)]
pub struct WaitAnswer {
    /// The wait.
    pub wait: WaitId,
    payload: Box<RawValue>,
}

impl WaitAnswer {
    /// What the callback brought, as JSON text.
    pub fn text(&self) -> &str {
        self.payload.get()
    }

    /// What the callback brought.
    pub fn read(&self) -> Value {
        json::read_back(self.text())
    }
}

/// Lists what answered the waits of a run whose key had other runs before. `first` is the run that
/// their identities derive from.
pub async fn list_answers(
    cell: SlotCell<'_>,
    run: RunId,
    first: RunId,
) -> Result<Vec<WaitAnswer>, ReadError> {
    let (low, high) = first.wait_range();
    let client = cell.reader().await?;
    let rows = client.query(ANSWERS, &[run.as_uuid(), &low, &high]).await?;
    Ok(rows.iter().map(read_answer).collect())
}

/// The run that a wait belongs to now.
pub async fn find_run(cell: SlotCell<'_>, wait: WaitId) -> Result<Option<RunId>, ReadError> {
    let client = cell.reader().await?;
    let row = client.query_opt(HOLDER, &[wait.as_uuid()]).await?;
    Ok(row.map(|row| RunId::from_uuid(row.get(0))))
}

pub(crate) fn read_answer(row: &Row) -> WaitAnswer {
    WaitAnswer {
        wait: WaitId::from_uuid(row.get(1)),
        payload: row.get::<_, Json<Box<RawValue>>>(2).0,
    }
}

/// A callback on its way in.
#[derive(Clone, Debug)]
pub struct Callback {
    /// The wait that it answers.
    pub wait: WaitId,
    /// The wait's run.
    pub run: RunId,
    /// The run in which that one begins, where it is a branch that may not have begun.
    pub begins_in: Option<RunId>,
    /// What it brings, as JSON text.
    pub payload: String,
    /// What is recorded in the same commit where it is the first, when an operator gives the
    /// answer.
    pub act: Option<AuditEntry>,
}

impl Callback {
    /// One to a run that has begun.
    pub fn of(run: RunId, wait: WaitId, payload: String) -> Self {
        Self {
            wait,
            run,
            begins_in: None,
            payload,
            act: None,
        }
    }
}

/// The result of a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallbackResult {
    /// Another callback of the same commit was tried instead, and was refused: it may be repeated.
    NotTried,
    /// It was the first: the run continues with it.
    First,
    /// Another was first, or the wait had ended: this is what was recorded.
    Recorded {
        /// How the wait ended.
        state: WaitState,
        /// When.
        at: Option<Timestamp>,
    },
    /// There is no such wait, and its run has ended.
    Unknown,
}

/// The batch of one commit of callbacks.
pub struct CallbackBatch;

/// Starts the writer that all callbacks of a process go through.
pub fn start_answering(cell: &Cell) -> Writer<CallbackBatch> {
    Writer::start(cell, || CallbackBatch)
}

impl Batch for CallbackBatch {
    type Item = Callback;
    type Answer = CallbackResult;
    type Gathered = ();

    const LANES: usize = 1;

    fn slot(item: &Callback) -> Slot {
        item.run.slot()
    }

    async fn write(
        &mut self,
        connection: &mut WriterConnection,
        items: &mut Vec<Callback>,
    ) -> Result<Vec<CallbackResult>, Error> {
        let answer = semel_model::SeededBug::WaitAnsweredTwice;
        let answer = answer.in_text(ANSWER, "waits.state = 'open'", "true");
        let wake = semel_model::SeededBug::AnswerWakesNobody;
        let wake = wake.in_text(WAKE, "(q.holder IS NOT NULL OR", "(q.holder IS NULL AND");
        let texts = [LOCK_RUNS, answer, wake, RECORDED, audit::APPEND];
        let ready = connection.prepare(&texts).await?;
        // The first of each wait speaks for the others of the batch.
        let mut firsts: HashMap<WaitId, usize> = HashMap::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            firsts.entry(item.wait).or_insert(index);
        }
        let mut chosen: Vec<&Callback> = firsts.values().map(|index| &items[*index]).collect();
        chosen.sort_unstable_by_key(|item| item.run);
        let ids: Vec<Uuid> = chosen.iter().map(|item| *item.wait.as_uuid()).collect();
        let runs: Vec<Uuid> = chosen.iter().map(|item| *item.run.as_uuid()).collect();
        let begin_in = chosen.iter().map(|item| item.begins_in);
        let begin_in: Vec<Option<Uuid>> =
            begin_in.map(|run| run.map(|run| *run.as_uuid())).collect();
        let locked: Vec<Uuid> = begin_in.iter().flatten().chain(&runs).copied().collect();
        let payloads: Vec<&str> = chosen.iter().map(|item| item.payload.as_str()).collect();

        let written = try_join5(
            ready.client.batch_execute("BEGIN"),
            ready.client.query(ready.statement(LOCK_RUNS), &[&locked]),
            ready.client.query(
                ready.statement(answer),
                &[&ids, &runs, &begin_in, &payloads],
            ),
            ready.client.execute(ready.statement(wake), &[&ids, &runs]),
            ready.client.query(ready.statement(RECORDED), &[&ids]),
        )
        .await;
        let (_, _, answered, _, recorded) = match written {
            Ok(rows) => rows,
            Err(error) => {
                let _ = ready.client.batch_execute("ROLLBACK").await;
                return Err(error);
            }
        };
        let won: Vec<Uuid> = answered.iter().map(|row| row.get(0)).collect();
        let winners = chosen
            .iter()
            .filter(|item| won.contains(item.wait.as_uuid()));
        let acts = audit::Rows::of(winners.filter_map(|item| item.act.as_ref()));
        if !acts.is_empty() {
            let append = ready.statement(audit::APPEND);
            if let Err(error) = ready.client.execute(append, &acts.values()).await {
                let _ = ready.client.batch_execute("ROLLBACK").await;
                return Err(error);
            }
        }
        ready.client.batch_execute("COMMIT").await?;
        let recorded: HashMap<Uuid, CallbackResult> = recorded
            .iter()
            .map(|row| (row.get(0), read_reply(row)))
            .collect();
        Ok(items
            .iter()
            .enumerate()
            .map(|(index, item)| {
                let first = firsts.get(&item.wait) == Some(&index);
                match recorded.get(item.wait.as_uuid()) {
                    Some(_) if first && won.contains(item.wait.as_uuid()) => CallbackResult::First,
                    // The one that spoke for it had answered the wait before, and did not again.
                    Some(CallbackResult::Recorded {
                        state: WaitState::Open,
                        ..
                    }) if !first => CallbackResult::NotTried,
                    Some(reply) => *reply,
                    None => CallbackResult::Unknown,
                }
            })
            .collect())
    }
}

fn read_reply(row: &Row) -> CallbackResult {
    CallbackResult::Recorded {
        state: read_state(row.get(1)),
        at: row.get(2),
    }
}

fn read_state(text: &str) -> WaitState {
    match text.parse() {
        Ok(state) => state,
        Err(_) => unreachable!("the record has no wait state {text}"),
    }
}
