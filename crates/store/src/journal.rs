//! The `journal` table, and the writer that moves runs forward.
//!
//! A [`Transition`] is everything that one step forward writes: the events, what they make of the
//! ledger, the waits, the shared entries and the record, and what happens to the lease. The
//! transitions of all runs that are ready together are one transaction and one commit.
//!
//! Commit points: there is one, that of [`TransitionBatch`]. Its statement begins with the fence: each row
//! of `queue` must still carry the holder, the epoch and the sequence number that the worker
//! believes in. If one does not, the whole flight is rolled back, the late worker gets an error,
//! and the others are submitted again without it.
//!
//! After a lost answer the same batch is simply submitted again. A transition that had taken effect
//! fails its fence then, and is recognised by its own journal row: same run, same number, same
//! epoch.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use futures_util::future::{join, join_all};
use jiff::civil::Date;
use semel_model::event::Event;
use semel_model::{InSlot, RunId, Slot};
use serde_json::Value;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use crate::cell::{Cell, ReadError, SlotCell};
use crate::kv::{self, Performed};
use crate::writer::connection::{ErrorClass, PreparedClient, WriterConnection, classify};
use crate::writer::{Batch, Writer};

mod columns;
mod events;
mod pipeline;
#[cfg(debug_assertions)]
mod seeded_bug;
mod small;
pub(crate) mod statement;
mod transition;
mod weight;

use columns::{Columns, Moves};
pub use events::Events;
pub(crate) use events::to_text;
use pipeline::Frame;
pub use small::read_small;
use statement::ChangeKinds;
pub use transition::{
    EffectChange, JournalRow, LeaseChange, RecordChange, Transition, TransitionResult, WaitChange,
};

/// Holds every row of the queue that a batch touches, in the order of identities.
const LOCK_ROWS: &str = "
    WITH locked AS MATERIALIZED (
        SELECT 1 FROM queue WHERE run_id = ANY ($1) ORDER BY run_id FOR UPDATE)
    SELECT count(*) FROM locked";

/// Holds rows whose lease still holds, for a batch that must look before it writes. Its plan is
/// pinned like that of the fence.
const LOCK: &str = "
    WITH held AS (
        SELECT 1
          FROM unnest($1::uuid[], $2::int8[], $3::int4[], $4::uuid[])
            AS t (run_id, epoch, seq, holder)
          JOIN queue q
            ON q.run_id = ANY (ARRAY[t.run_id]) AND q.epoch = t.epoch AND q.seq = t.seq
           AND q.holder IS NOT DISTINCT FROM t.holder
           FOR UPDATE OF q)
    SELECT all_or_nothing(count(*), $5) FROM held";

/// Which transitions pass the fence, which are in the journal already, and which were decided under
/// what is paused now.
const EXAMINE: &str = "
    SELECT t.run_id,
           EXISTS (SELECT 1 FROM queue q
                    WHERE q.run_id = ANY (ARRAY[t.run_id]) AND q.epoch = t.epoch AND q.seq = t.seq
                      AND q.holder IS NOT DISTINCT FROM t.holder),
           EXISTS (SELECT 1 FROM journal j
                    WHERE j.partition_date = t.partition_date AND j.run_id = t.run_id AND j.seq = t.seq + 1
                      AND j.epoch = t.epoch),
           coalesce(t.pause_version = (SELECT pause_version FROM clock), true)
      FROM unnest($1::uuid[], $2::int8[], $3::int4[], $4::uuid[], $5::date[], $6::int8[])
        AS t (run_id, epoch, seq, holder, partition_date, pause_version)";

pub(crate) const LOAD: &str = "
    SELECT j.run_id, j.seq, j.at, j.events::text
      FROM unnest($1::uuid[], $2::date[]) AS t (run_id, partition_date)
      JOIN journal j ON j.partition_date = t.partition_date AND j.run_id = t.run_id
     ORDER BY j.run_id, j.seq";

const READ: &str = "
    SELECT run_id, seq, at, events::text
      FROM journal
     WHERE partition_date = $1 AND run_id = $2
     ORDER BY seq";

const SIZE: &str = "
    SELECT coalesce(sum(octet_length(events::text)), 0)::int8
      FROM journal
     WHERE partition_date = $1 AND run_id = $2";

const READ_FIRST: &str = "
    SELECT run_id, seq, at, events::text
      FROM journal
     WHERE partition_date = $1 AND run_id = $2
     ORDER BY seq
     LIMIT 1";

const LATEST: &str = "
    SELECT seq
      FROM journal
     WHERE partition_date = $1 AND run_id = $2
     ORDER BY seq DESC
     LIMIT 1";

pub(crate) const STATEMENTS: &[&str] = &[
    LOCK_ROWS,
    LOCK,
    EXAMINE,
    LOAD,
    READ,
    SIZE,
    READ_FIRST,
    small::READ_SMALL,
    LATEST,
];

/// The batch of one commit of transitions.
pub struct TransitionBatch;

/// Starts the writer that all transitions of a process go through.
pub fn start_recording(cell: &Cell) -> Writer<TransitionBatch> {
    Writer::start(cell, || TransitionBatch)
}

impl Batch for TransitionBatch {
    type Item = Arc<Transition>;
    type Answer = TransitionResult;
    type Gathered = kv::GatheredEntries;

    const LANES: usize = 2;
    /// Measured: `docs/decisions/0005-one-writer-per-process.md`.
    const SECOND_LANE_FROM: usize = 48;

    fn callers(cell: &Cell) -> Arc<AtomicUsize> {
        cell.recording().clone()
    }

    fn slot(item: &Arc<Transition>) -> Slot {
        item.run.slot()
    }

    fn subject(item: &Arc<Transition>) -> u128 {
        item.run.as_uuid().as_u128()
    }

    fn bytes(item: &Arc<Transition>) -> usize {
        item.bytes()
    }

    fn admit(gathered: &mut kv::GatheredEntries, next: &Arc<Transition>) -> bool {
        gathered.admit(next)
    }

    async fn write(
        &mut self,
        connection: &mut WriterConnection,
        items: &mut Vec<Arc<Transition>>,
    ) -> Result<Vec<TransitionResult>, Error> {
        let mut batch: Vec<&Transition> = items.iter().map(Arc::as_ref).collect();
        batch.sort_unstable_by_key(|item| item.run);
        let mut answers: HashMap<RunId, TransitionResult> = HashMap::with_capacity(items.len());
        loop {
            match commit(connection, &batch).await {
                Ok(written) => {
                    answers.extend(written);
                    break;
                }
                Err(error) if classify(&error) == ErrorClass::Fenced => {
                    let judged = examine(connection, &batch).await?;
                    batch.retain(|item| !judged.contains_key(&item.run));
                    if judged.is_empty() {
                        // Not the fence of the queue but that of a wait: a callback came first.
                        answers.extend(one_by_one(connection, &batch).await?);
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
            .map(|item| {
                answers
                    .remove(&item.run)
                    .unwrap_or(TransitionResult::Fenced)
            })
            .collect())
    }
}

/// Commits transitions one at a time, to find the one that is refused.
async fn one_by_one(
    connection: &mut WriterConnection,
    batch: &[&Transition],
) -> Result<HashMap<RunId, TransitionResult>, Error> {
    let mut answers = HashMap::with_capacity(batch.len());
    for item in batch {
        match commit(connection, std::slice::from_ref(item)).await {
            Ok(written) => answers.extend(written),
            Err(error) if classify(&error) == ErrorClass::Fenced => {
                let judged = examine(connection, std::slice::from_ref(item)).await?;
                let why = judged.into_values().next();
                // A worker that passes the queue's fence still holds the run, and must return it.
                answers.insert(item.run, why.unwrap_or(TransitionResult::Overtaken));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(answers)
}

/// Says why each transition cannot be committed: it was committed before, or it is fenced off.
async fn examine(
    connection: &mut WriterConnection,
    batch: &[&Transition],
) -> Result<HashMap<RunId, TransitionResult>, Error> {
    let ready = connection.prepare(&[EXAMINE]).await?;
    let Moves {
        runs,
        epochs,
        seqs,
        holders,
        partition_date,
        pause_versions,
        ..
    } = &Moves::of(batch);
    let values: [&(dyn ToSql + Sync); 6] =
        [runs, epochs, seqs, holders, partition_date, pause_versions];
    let rows = ready
        .client
        .query(ready.statement(EXAMINE), &values)
        .await?;
    let mut judged = HashMap::new();
    for row in rows {
        let (run, passes, written): (Uuid, bool, bool) = (row.get(0), row.get(1), row.get(2));
        match (passes, written) {
            (true, _) if row.get(3) => continue,
            (true, _) => judged.insert(RunId::from_uuid(run), TransitionResult::PausesChanged),
            (false, true) => judged.insert(
                RunId::from_uuid(run),
                TransitionResult::Committed {
                    cancel: false,
                    made: None,
                },
            ),
            (false, false) => judged.insert(RunId::from_uuid(run), TransitionResult::Fenced),
        };
    }
    Ok(judged)
}

/// Writes the whole batch in one transaction.
async fn commit(
    connection: &mut WriterConnection,
    batch: &[&Transition],
) -> Result<HashMap<RunId, TransitionResult>, Error> {
    let ordered = kv::in_order(batch);
    let shape = ChangeKinds::of(batch, ordered.is_empty());
    let follows = batch.iter().any(|item| item.needs_extra_statements());
    let mut texts = vec![shape.text()];
    if follows || !ordered.is_empty() {
        texts.extend(pipeline::EXTRA_STATEMENTS);
    }
    let ready = connection.prepare(&texts).await?;
    let tasks = kv::tasks(&ordered, false);
    let mut written = write_all(ready, shape, batch, &tasks, follows).await;
    if matches!(written, Ok(None)) {
        ready.client.batch_execute("ROLLBACK").await?;
        let tasks = kv::tasks(&ordered, true);
        written = write_all(ready, shape, batch, &tasks, follows).await;
    }
    if written.is_err() {
        // The rest of the flight, its COMMIT included, has been refused by the server already.
        let _ = ready.client.batch_execute("ROLLBACK").await;
    }
    let (cancelled, mut made) = written?.unwrap_or_default();
    let answer = |item: &&Transition| {
        let cancel = cancelled.contains(item.run.as_uuid());
        let made = made.remove(&item.run);
        (item.run, TransitionResult::Committed { cancel, made })
    };
    Ok(batch.iter().map(answer).collect())
}

type Landed = (HashSet<Uuid>, HashMap<RunId, Event>);

/// Nothing where additions have to be made one by one: the transaction is open, and is to be rolled back.
async fn write_all(
    ready: PreparedClient<'_>,
    shape: ChangeKinds,
    batch: &[&Transition],
    tasks: &[kv::Task<'_>],
    follows: bool,
) -> Result<Option<Landed>, Error> {
    // An entry whose new value depends on the old one must be read before its event can be
    // written, so such a batch takes two flights in its one transaction.
    let rows = pipeline::rows(batch);
    let mut made = HashMap::with_capacity(batch.len());
    if !tasks.is_empty() {
        // Sent together: the server works through them in order, and refuses the rest after one
        // that fails.
        let moves = Moves::of(batch);
        let sent = tasks.iter().map(|task| task.perform(ready));
        let locked = pipeline::lock(ready, &moves, &rows);
        let (locked, performed) = join(locked, join_all(sent)).await;
        locked?;
        let performed: Vec<Performed> = performed.into_iter().collect::<Result<_, _>>()?;
        for one in performed {
            match one {
                Performed::Made(events) => made.extend(events),
                Performed::OneByOne => return Ok(None),
            }
        }
    }
    let columns = Columns::of(batch, &made, tasks.is_empty());
    let frame = match (tasks.is_empty(), follows) {
        (false, _) => Frame::Open,
        (true, true) => Frame::Around,
        (true, false) => Frame::None,
    };
    let cancelled = pipeline::land(ready, shape, &columns, &rows, frame).await?;
    drop(columns);
    Ok(Some((cancelled, made)))
}

/// Reads a run's journal.
pub async fn read(
    cell: SlotCell<'_>,
    partition_date: Date,
    run: RunId,
) -> Result<Vec<JournalRow>, ReadError> {
    let client = cell.reader().await?;
    let rows = client
        .query(READ, &[&partition_date, run.as_uuid()])
        .await?;
    Ok(rows.iter().map(read_line).collect())
}

/// How many bytes a run's journal has, as it is read.
pub async fn size(cell: SlotCell<'_>, partition_date: Date, run: RunId) -> Result<i64, ReadError> {
    let client = cell.reader().await?;
    let values: [&(dyn ToSql + Sync); 2] = [&partition_date, run.as_uuid()];
    Ok(client.query_one(SIZE, &values).await?.get(0))
}

/// Reads the first row of a run's journal.
pub async fn read_first(
    cell: SlotCell<'_>,
    partition_date: Date,
    run: RunId,
) -> Result<Option<JournalRow>, ReadError> {
    let client = cell.reader().await?;
    let row = client
        .query_opt(READ_FIRST, &[&partition_date, run.as_uuid()])
        .await?;
    Ok(row.as_ref().map(read_line))
}

/// The number of the latest row of a run's journal; zero where it has none.
pub async fn latest_seq(
    cell: SlotCell<'_>,
    partition_date: Date,
    run: RunId,
) -> Result<i32, ReadError> {
    let client = cell.reader().await?;
    let row = client
        .query_opt(LATEST, &[&partition_date, run.as_uuid()])
        .await?;
    Ok(row.map_or(0, |row| row.get(0)))
}

pub(crate) fn read_line(row: &Row) -> JournalRow {
    JournalRow {
        seq: row.get(1),
        at: row.get(2),
        events: row.get(3),
    }
}

impl JournalRow {
    /// The row's events.
    pub fn read(&self) -> Result<Vec<Event>, serde_json::Error> {
        serde_json::from_str(&self.events)
    }

    /// The row's events, for people.
    pub fn values(&self) -> Vec<Value> {
        serde_json::from_str(&self.events).unwrap_or_default()
    }
}
