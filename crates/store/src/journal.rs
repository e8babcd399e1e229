//! The `journal` table, and the writer that moves runs forward.
//!
//! A [`Transition`] is everything that one step forward writes: the events, what they make of the
//! ledger, the waits, the shared entries and the record, and what becomes of the lease. The
//! transitions of all runs that are ready together are one transaction and one commit.
//!
//! Commit points: there is one, the `COMMIT` of [`Record`]. The first statements of the transaction
//! are the fence: each row of `queue` must still carry the holder, the epoch and the sequence number
//! that the worker believes in. If one does not, the whole flight is rolled back, the late worker
//! is told, and the others are submitted again without it.
//!
//! After a lost answer the same batch is simply submitted again. A transition that had taken effect
//! fails its fence then, and is recognised by its own journal row: same run, same number, same epoch.

use std::collections::{HashMap, HashSet};

use jiff::civil::Date;
use semel_model::RunId;
use semel_model::event::Event;
use serde_json::Value;
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use crate::cell::{Cell, ReadError};
use crate::kv;
use crate::link::{Link, Ready, Trouble, trouble};
use crate::writer::{Batch, Writer};

mod columns;
mod flight;
#[cfg(feature = "faults")]
mod mistaken;
mod transition;

use flight::Flight;
pub use transition::{EffectChange, Lease, Line, RecordChange, Transition, WaitChange, Written};

const FENCE: &str = "
    WITH fenced AS (
        UPDATE queue q
           SET seq = q.seq + 1, takes = 0, stage = t.stage::queue_stage,
               holder = CASE WHEN t.hold THEN q.holder END,
               due_at = CASE WHEN t.hold THEN q.due_at
                             WHEN q.cancel AND NOT t.saw_cancel THEN (SELECT moment())
                             ELSE coalesce(t.due_at, 'infinity') END
          FROM unnest($1::uuid[], $2::int8[], $3::int4[], $4::uuid[], $5::bool[],
                      $6::timestamptz[], $7::text[], $9::bool[])
            AS t (run_id, epoch, seq, holder, hold, due_at, stage, saw_cancel)
         WHERE q.run_id = t.run_id AND q.epoch = t.epoch AND q.seq = t.seq AND q.holder = t.holder
     RETURNING q.run_id, q.cancel)
    SELECT all_or_nothing(count(*), $8), array_agg(run_id) FILTER (WHERE cancel) FROM fenced";

const FENCE_END: &str = "
    WITH fenced AS (
        DELETE FROM queue q
         USING unnest($1::uuid[], $2::int8[], $3::int4[], $4::uuid[])
            AS t (run_id, epoch, seq, holder)
         WHERE q.run_id = t.run_id AND q.epoch = t.epoch AND q.seq = t.seq AND q.holder = t.holder
     RETURNING 1)
    SELECT all_or_nothing(count(*), $5) FROM fenced";

const APPEND: &str = "
    INSERT INTO journal (born, run_id, seq, epoch, at, events)
    SELECT t.born, t.run_id, t.seq + 1, t.epoch, (SELECT moment()), t.events::json
      FROM unnest($1::date[], $2::uuid[], $3::int4[], $4::int8[], $5::text[])
        AS t (born, run_id, seq, epoch, events)";

/// Who passes the fence, and whose transition is in the journal already.
const EXAMINE: &str = "
    SELECT t.run_id,
           EXISTS (SELECT 1 FROM queue q
                    WHERE q.run_id = t.run_id AND q.epoch = t.epoch AND q.seq = t.seq
                      AND q.holder = t.holder),
           EXISTS (SELECT 1 FROM journal j
                    WHERE j.born = t.born AND j.run_id = t.run_id AND j.seq = t.seq + 1
                      AND j.epoch = t.epoch)
      FROM unnest($1::uuid[], $2::int8[], $3::int4[], $4::uuid[], $5::date[])
        AS t (run_id, epoch, seq, holder, born)";

pub(crate) const LOAD: &str = "
    SELECT j.run_id, j.seq, j.at, j.events::text
      FROM unnest($1::uuid[], $2::date[]) AS t (run_id, born)
      JOIN journal j ON j.born = t.born AND j.run_id = t.run_id
     ORDER BY j.run_id, j.seq";

const READ: &str = "
    SELECT run_id, seq, at, events::text
      FROM journal
     WHERE born = $1 AND run_id = $2
     ORDER BY seq";

pub(crate) const STATEMENTS: &[&str] = &[FENCE, FENCE_END, APPEND, EXAMINE, LOAD, READ];

/// The batch of one commit of transitions.
pub struct Record;

/// Starts the writer that all transitions of a process go through.
pub fn start_recording(cell: &Cell) -> Writer<Record> {
    Writer::start(cell, Record)
}

impl Batch for Record {
    type Item = Transition;
    type Answer = Written;

    /// A shared entry can be written once per commit, so a second write to it waits for the next.
    fn admits(&self, gathered: &[Transition], next: &Transition) -> bool {
        let Some(write) = &next.kv else { return true };
        let taken = |item: &Transition| {
            item.kv.as_ref().is_some_and(|other| {
                other.operation.entry == write.operation.entry
                    && item.namespace_id == next.namespace_id
            })
        };
        !gathered.iter().any(taken)
    }

    async fn write(
        &mut self,
        link: &mut Link,
        items: &mut Vec<Transition>,
    ) -> Result<Vec<Written>, Error> {
        link.prepare(flight::STATEMENTS).await?;
        let Some(ready) = link.ready() else {
            unreachable!("prepare connects")
        };
        let mut batch: Vec<&Transition> = items.iter().collect();
        batch.sort_unstable_by_key(|item| item.run);
        let mut answers: HashMap<RunId, Written> = HashMap::with_capacity(items.len());
        loop {
            match commit(ready, &batch).await {
                Ok(written) => {
                    answers.extend(written);
                    break;
                }
                Err(error) if trouble(&error) == Trouble::Fenced => {
                    let judged = examine(ready, &batch).await?;
                    batch.retain(|item| !judged.contains_key(&item.run));
                    if judged.is_empty() {
                        // Not the fence of the queue but that of a wait: a callback came first.
                        answers.extend(one_by_one(ready, &batch).await?);
                        break;
                    }
                    answers.extend(judged);
                }
                Err(error) => return Err(error),
            }
            if batch.is_empty() {
                break;
            }
        }
        Ok(items
            .iter()
            .map(|item| answers.remove(&item.run).unwrap_or(Written::Fenced))
            .collect())
    }
}

/// Commits transitions one at a time, to find the one that is refused.
async fn one_by_one(
    ready: Ready<'_>,
    batch: &[&Transition],
) -> Result<HashMap<RunId, Written>, Error> {
    let mut answers = HashMap::with_capacity(batch.len());
    for item in batch {
        match commit(ready, std::slice::from_ref(item)).await {
            Ok(written) => answers.extend(written),
            Err(error) if trouble(&error) == Trouble::Fenced => {
                let judged = examine(ready, std::slice::from_ref(item)).await?;
                let why = judged.into_values().next();
                // Who passes the queue's fence still holds the run, and must hand it back.
                answers.insert(item.run, why.unwrap_or(Written::Overtaken));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(answers)
}

/// Says of each transition that cannot be committed why: it was before, or it is fenced off.
async fn examine(
    ready: Ready<'_>,
    batch: &[&Transition],
) -> Result<HashMap<RunId, Written>, Error> {
    let fence = columns::Fence::of(batch.iter().copied());
    let born: Vec<Date> = batch.iter().map(|item| item.born).collect();
    let rows = ready
        .client
        .query(
            ready.statement(EXAMINE),
            &[
                &fence.runs,
                &fence.epochs,
                &fence.seqs,
                &fence.holders,
                &born,
            ],
        )
        .await?;
    let mut judged = HashMap::new();
    for row in rows {
        let (run, passes, written): (Uuid, bool, bool) = (row.get(0), row.get(1), row.get(2));
        match (passes, written) {
            (true, _) => continue,
            (false, true) => judged.insert(
                RunId::from_uuid(run),
                Written::Committed {
                    cancel: false,
                    made: None,
                },
            ),
            (false, false) => judged.insert(RunId::from_uuid(run), Written::Fenced),
        };
    }
    Ok(judged)
}

/// Writes the whole batch in one transaction.
async fn commit(ready: Ready<'_>, batch: &[&Transition]) -> Result<HashMap<RunId, Written>, Error> {
    let mut outcome = write_all(ready, batch).await;
    if outcome.is_err() {
        // The rest of the flight, its COMMIT included, has been refused by the server already.
        let _ = ready.client.batch_execute("ROLLBACK").await;
    }
    let Ok((cancelled, made)) = &mut outcome else {
        return outcome.map(|_| HashMap::new());
    };
    Ok(batch
        .iter()
        .map(|item| {
            let cancel = cancelled.contains(item.run.as_uuid());
            (
                item.run,
                Written::Committed {
                    cancel,
                    made: made.remove(&item.run),
                },
            )
        })
        .collect())
}

type Landed = (HashSet<Uuid>, HashMap<RunId, Event>);

async fn write_all(ready: Ready<'_>, batch: &[&Transition]) -> Result<Landed, Error> {
    let fences = columns::Fences::of(batch);
    let mut flight = Flight::begin(ready);
    flight.fence(&fences);
    // An entry whose new value depends on the old one must be read before its event can be
    // written, so such a batch takes two flights in its one transaction.
    let unforeseen = kv::unforeseen(batch);
    if unforeseen.is_empty() {
        let made = HashMap::new();
        let columns = columns::Columns::of(batch, &made);
        return Ok((flight.land_with(&fences, &columns).await?, HashMap::new()));
    }
    let cancelled = flight.land().await?;
    let mut made = HashMap::with_capacity(unforeseen.len());
    for item in unforeseen {
        made.insert(item.run, kv::perform(ready, item).await?);
    }
    let columns = columns::Columns::of(batch, &made);
    Flight::go_on(ready).land_with(&fences, &columns).await?;
    drop(columns);
    Ok((cancelled, made))
}

/// Reads a run's journal.
pub async fn read(cell: &Cell, born: Date, run: RunId) -> Result<Vec<Line>, ReadError> {
    let client = cell.reader().await?;
    let rows = client.query(READ, &[&born, run.as_uuid()]).await?;
    Ok(rows.iter().map(read_line).collect())
}

pub(crate) fn read_line(row: &Row) -> Line {
    Line {
        seq: row.get(1),
        at: row.get(2),
        events: row.get(3),
    }
}

impl Line {
    /// The row's events.
    pub fn read(&self) -> Result<Vec<Event>, serde_json::Error> {
        serde_json::from_str(&self.events)
    }

    /// The row's events, for people.
    pub fn values(&self) -> Vec<Value> {
        serde_json::from_str(&self.events).unwrap_or_default()
    }
}
