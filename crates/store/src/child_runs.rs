//! The `child_runs` table: items and branches of runs, each with the run that performs its steps.
//!
//! A child run lives in the slot of its parent, so that its end, its place in the list and the
//! waking of its parent are one commit.
//!
//! ```text
//! pending ──▶ open ──▶ succeeded
//!               │ ▲
//!               ▼ └── an operator resumes the run
//!             failed, cancelled
//! ```

mod reopen;
mod view;

pub use reopen::{ReopenedChildren, reopen, reopen_one};
pub use view::{
    ChildCounts, ChildRunFilter, ChildRunView, count, find_by_key, first_succeeded, list,
    list_page, steps,
};

use jiff::civil::Date;
use semel_model::{InSlot, Key, RunId, SessionId, Slot};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::cell::{ReadError, SlotCell};
use crate::wakes::wakes;

/// An item that is recorded already stays as it is: loading continues where it was cut off, and of
/// two items with one key the first counts. A run whose items are recorded makes progress.
macro_rules! load {
    ($columns:literal, $arrays:literal) => {
        concat!(
            "
    WITH loaded AS (
        INSERT INTO child_runs (parent_id, step, index, run_id, namespace_id, key, item",
            $columns,
            ")
        SELECT $1, $2, t.index, t.run_id, $7, t.key, t.item::json",
            $columns,
            "
          FROM unnest($3::int4[], $4::uuid[], $5::text[], $6::text[]",
            $arrays,
            ")
            AS t (index, run_id, key, item",
            $columns,
            ")
            ON CONFLICT DO NOTHING
     RETURNING 1)
    UPDATE queue SET stalled_takes = 0, suspects = 0
     WHERE run_id = $1 AND stalled_takes > 0 AND EXISTS (SELECT 1 FROM loaded)"
        )
    };
}

const LOAD: &str = load!("", "");

/// As [`LOAD`], of a parent that is not the first run of its key.
const LOAD_AGAIN: &str = load!(", first_id, last_id", ", $8::uuid[], $9::uuid[]");

const LOADED: &str = "
    SELECT max(index) FROM child_runs WHERE parent_id = $1 AND step = $2";

/// Starts child runs for which there is room: their runs, queue entries and first journal rows.
/// Only the holder of the parent may, so that none starts after the parent was stopped. A run whose
/// child runs start makes progress.
macro_rules! begin {
    ($columns:literal, $members:literal) => {
        concat!(
            "/* commits alone: begin children */
    WITH present AS MATERIALIZED (SELECT moment() AS now),
    held AS MATERIALIZED (
        SELECT 1 FROM queue
         WHERE run_id = $1 AND epoch = $2 AND holder IS NOT DISTINCT FROM $3 FOR UPDATE),
    room AS (
        SELECT greatest($5::int8 - count(*), 0) AS free
          FROM child_runs WHERE parent_id = $1 AND step = $4 AND state = 'open'),
    chosen AS MATERIALIZED (
        SELECT p.index, p.run_id, p.key, p.item",
            $columns,
            "
          FROM child_runs p
         WHERE p.parent_id = $1 AND p.step = $4 AND p.state = 'pending'
           AND EXISTS (SELECT 1 FROM held)
         ORDER BY p.index
         LIMIT (SELECT least(free, $12::int8) FROM room)),
    opened AS (
        UPDATE child_runs p SET state = 'open', item = NULL
          FROM chosen c
         WHERE p.run_id = c.run_id),
    progress AS (
        UPDATE queue SET stalled_takes = 0, suspects = 0
         WHERE run_id = $1 AND stalled_takes > 0 AND EXISTS (SELECT 1 FROM chosen)),
    made AS (
        INSERT INTO runs (id, claim_id, namespace_id, release_id, partition_date, key, delivery_id,
                          accepted_at, parent_id)
        SELECT c.run_id, c.run_id, $6, $7, (p.now AT TIME ZONE 'UTC')::date,
               $8::bytea || convert_to('/' || $4 || '/' || c.key, 'UTF8'), c.run_id, p.now, $1
          FROM chosen c, present p),
    queued AS (
        INSERT INTO queue (run_id, due_at, epoch, seq, partition_date, namespace_id)
        SELECT c.run_id, p.now, 1, 1, (p.now AT TIME ZONE 'UTC')::date, $6 FROM chosen c, present p),
    written AS (
        INSERT INTO journal (partition_date, run_id, seq, epoch, at, events)
        SELECT (p.now AT TIME ZONE 'UTC')::date, c.run_id, 1, 1, p.now,
               json_build_array(json_build_object(
                   'event', 'begun', 'parent', $9::text, 'partition_date', $10::date, 'seq', $11::int4,
                   'step', $4, 'index', c.index, 'item', c.item",
            $members,
            "))
          FROM chosen c, present p)
    SELECT (SELECT count(*) FROM chosen), (SELECT count(*) FROM held)"
        )
    };
}

const BEGIN: &str = begin!("", "");

/// As [`BEGIN`], of a parent that is not the first run of its key.
const BEGIN_AGAIN: &str = begin!(
    ", p.first_id, p.last_id",
    ", 'first', 'run_' || replace(c.first_id::text, '-', ''),
                   'last', 'run_' || replace(c.last_id::text, '-', '')"
);

const LOOK: &str = "
    SELECT (SELECT count(*) FROM child_runs WHERE parent_id = $1 AND step = $2 AND state = 'open'),
           EXISTS (SELECT 1 FROM child_runs WHERE parent_id = $1 AND step = $2 AND state = 'pending'),
           (SELECT index FROM child_runs
             WHERE parent_id = $1 AND step = $2 AND state = 'failed' ORDER BY index LIMIT 1),
           coalesce((SELECT cancel FROM queue WHERE run_id = $1), false)";

/// Asks open child runs to end; those that were asked before are left alone. Their rows are locked
/// in the order of identities first.
const CANCEL: &str = "
    WITH asked AS MATERIALIZED (
        SELECT q.run_id
          FROM queue q
         WHERE q.run_id = ANY (ARRAY(SELECT p.run_id FROM child_runs p
                                      WHERE p.parent_id = $1 AND p.step = $2 AND p.state = 'open'))
           AND NOT q.cancel
         ORDER BY q.run_id
           FOR UPDATE)
    UPDATE queue q
       SET cancel = true,
           due_at = CASE WHEN q.holder IS NULL THEN moment() ELSE q.due_at END
     WHERE q.run_id = ANY (ARRAY(SELECT run_id FROM asked)) AND NOT q.cancel";

const STEP_OF: &str = "SELECT step FROM child_runs WHERE run_id = $1";

/// The end of child runs, in the commit that ends their runs, which wakes their parent. The batch
/// holds the rows of both already, so this waits for no lock.
pub(crate) const END: &str = concat!(
    "
    WITH ended AS (
        UPDATE child_runs p
           SET state = t.state::child_state, ended_at = moment()
          FROM unnest($1::uuid[], $2::text[]) AS t (run_id, state)
         WHERE p.run_id = t.run_id
     RETURNING p.parent_id)
    UPDATE queue q
       SET ",
    wakes!("(SELECT moment())"),
    "
     WHERE q.run_id IN (SELECT parent_id FROM ended) AND (q.holder IS NULL OR NOT q.woken)"
);

pub(crate) const STATEMENTS: &[&str] = &[
    LOAD,
    LOAD_AGAIN,
    LOADED,
    BEGIN,
    BEGIN_AGAIN,
    LOOK,
    view::COUNT,
    view::STEPS,
    view::ALL,
    view::OF_STEP,
    view::SUCCEEDED,
    view::SUCCEEDED_OF_STEP,
    view::LEFT,
    view::LEFT_OF_STEP,
    view::FIRST_SUCCEEDED,
    view::FIND_BY_KEY,
    CANCEL,
    reopen::REOPEN,
    reopen::REOPEN_ONE,
    STEP_OF,
    END,
];

/// A child run to record.
#[derive(Clone, Debug)]
pub struct NewChildRun {
    /// Its place in the list.
    pub index: i32,
    /// The run that will perform its steps.
    pub run: RunId,
    /// What distinguishes it from the others.
    pub key: String,
    /// The item, as JSON text.
    pub item: String,
    /// The child run at its place in the first run of the key, and the last one at its place, where
    /// the parent is not the first.
    pub follows: Option<(RunId, Option<RunId>)>,
}

/// Which child runs are meant: those of one step of one run.
#[derive(Clone, Copy, Debug)]
pub struct ChildrenOf<'a> {
    /// The run.
    pub parent: RunId,
    /// The step.
    pub step: &'a str,
}

impl InSlot for ChildrenOf<'_> {
    fn slot(&self) -> Slot {
        self.parent.slot()
    }
}

/// What starting a child run needs to know of its parent.
#[derive(Clone, Debug)]
pub struct ChildStart<'a> {
    /// The namespace that owns it.
    pub namespace_id: i32,
    /// The release that it is on.
    pub release_id: i32,
    /// Its key.
    pub key: &'a Key,
    /// The partition of its journal.
    pub partition_date: Date,
    /// The row of its journal that child runs know it by.
    pub seq: i32,
    /// Who holds it, and under which lease.
    pub holder: SessionId,
    /// That lease.
    pub epoch: i64,
    /// Whether it is not the first run of its key.
    pub follows: bool,
    /// How many may begin by the holder's last look. One that has failed since then stops the others, and its place is
    /// nobody's before the next look.
    pub room: i64,
}

/// The state of a step's child runs, as far as it matters for what comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildProgress {
    /// How many are open.
    pub open: i64,
    /// Whether some have not started.
    pub pending: bool,
    /// The place of the first that failed.
    pub failed: Option<i32>,
    /// Whether an operator asks for the end of the run.
    pub cancel: bool,
}

/// Records child runs.
pub async fn load(
    cell: SlotCell<'_>,
    of: ChildrenOf<'_>,
    namespace_id: i32,
    children: &[NewChildRun],
) -> Result<(), ReadError> {
    let indexes: Vec<i32> = children.iter().map(|child| child.index).collect();
    let runs: Vec<Uuid> = children.iter().map(|child| *child.run.as_uuid()).collect();
    let keys: Vec<&str> = children.iter().map(|child| child.key.as_str()).collect();
    let items: Vec<&str> = children.iter().map(|child| child.item.as_str()).collect();
    let follows: Vec<(RunId, Option<RunId>)> =
        children.iter().filter_map(|it| it.follows).collect();
    let firsts: Vec<Uuid> = follows.iter().map(|(first, _)| *first.as_uuid()).collect();
    let last = |last: Option<RunId>| last.map(|last| *last.as_uuid());
    let lasts: Vec<Option<Uuid>> = follows.iter().map(|(_, run)| last(*run)).collect();
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![
        of.parent.as_uuid(),
        &of.step,
        &indexes,
        &runs,
        &keys,
        &items,
        &namespace_id,
    ];
    let text = match follows.is_empty() {
        true => LOAD,
        false => {
            values.extend([&firsts as &(dyn ToSql + Sync), &lasts]);
            LOAD_AGAIN
        }
    };
    cell.reader().await?.execute(text, &values).await?;
    Ok(())
}

/// How many items need not be loaded again: those up to the last that is recorded.
pub async fn loaded(cell: SlotCell<'_>, of: ChildrenOf<'_>) -> Result<u32, ReadError> {
    let client = cell.reader().await?;
    let row = client
        .query_one(LOADED, &[of.parent.as_uuid(), &of.step])
        .await?;
    let last: Option<i32> = row.get(0);
    Ok(last.map_or(0, |last| last.unsigned_abs() + 1))
}

/// Starts child runs until so many are open; returns how many it started. Zero if another worker
/// holds the lease.
pub async fn begin(
    cell: SlotCell<'_>,
    of: ChildrenOf<'_>,
    most: i64,
    with: &ChildStart<'_>,
) -> Result<Option<i64>, ReadError> {
    let parent = of.parent.to_string();
    let key = with.key.as_bytes();
    let values: [&(dyn ToSql + Sync); 12] = [
        of.parent.as_uuid(),
        &with.epoch,
        with.holder.as_uuid(),
        &of.step,
        &most,
        &with.namespace_id,
        &with.release_id,
        &key,
        &parent,
        &with.partition_date,
        &with.seq,
        &with.room,
    ];
    let text = if with.follows { BEGIN_AGAIN } else { BEGIN };
    let row = cell.reader().await?.query_one(text, &values).await?;
    let (begun, held): (i64, i64) = (row.get(0), row.get(1));
    Ok((held > 0).then_some(begun))
}

/// Reads the state of a step's child runs.
pub async fn look(cell: SlotCell<'_>, of: ChildrenOf<'_>) -> Result<ChildProgress, ReadError> {
    let client = cell.reader().await?;
    let row = client
        .query_one(LOOK, &[of.parent.as_uuid(), &of.step])
        .await?;
    Ok(ChildProgress {
        open: row.get(0),
        pending: row.get(1),
        failed: row.get(2),
        cancel: row.get(3),
    })
}

/// Asks for the end of open child runs; returns of how many.
pub async fn cancel(cell: SlotCell<'_>, of: ChildrenOf<'_>) -> Result<u64, ReadError> {
    let client = cell.reader().await?;
    Ok(client
        .execute(CANCEL, &[of.parent.as_uuid(), &of.step])
        .await?)
}

/// The step that a child run belongs to.
pub async fn find_step(cell: SlotCell<'_>, child: RunId) -> Result<Option<String>, ReadError> {
    let client = cell.reader().await?;
    let row = client.query_opt(STEP_OF, &[child.as_uuid()]).await?;
    Ok(row.map(|row| row.get(0)))
}
