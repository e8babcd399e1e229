//! The `pauses` and `paused_runs` tables: flows and connections that operators paused, and the runs
//! that sleep for them.
//!
//! `clock.pause_version` rises in the commit of every pause and resume, which locks that row before any
//! other. Every rise has intents decided anew, in all namespaces, so a namespace begins a bounded number
//! of pauses in a minute ([`PAUSES_MAX`]); each of them ends once, and that is never refused. A server caches what is
//! paused together with the version ([`load`]). A transition that writes an intent, or lets a run fall
//! asleep for a pause, names the version that it was decided under, and is refused where the row of
//! the clock has another.
//!
//! After that commit, [`await_writers`] waits until every transaction has ended that was open then.
//! A statement registers its transaction before it takes the snapshot that it reads the version by.
//! So a statement that read the version before has ended by then, and one that reads it later finds
//! the new one: what returns from [`await_writers`] is followed by no intent under the old version.
//! By the same argument every run that fell asleep for a pause is in `paused_runs` by then, and
//! [`wake`] finds them all.

use std::time::Duration;

use jiff::Timestamp;
use semel_model::{RunId, SeededBug, SessionId};
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::cell::{Cell, EveryCell, HomeCell, ReadError, SlotCell};
use crate::wakes::wakes;

mod change;
mod views;

pub use change::{PAUSES_MAX, PauseResult, pause, resume};
pub(crate) use views::STATEMENTS as VIEWS;
pub use views::{PauseView, find_of_run, list_open};

/// The most pauses of a namespace that are over and that a server caches, the latest. It caches all that
/// are open. A run that has slept since before the oldest of them asks for its own ([`find_over`]).
pub const CACHED_MAX: i64 = 1_000;

/// The most runs that are made due in one commit.
pub const WAKE_MAX: i64 = 1_000;

/// How long [`await_writers`] rests between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// One snapshot: the version and what it is the version of.
const LOAD: &str = "
    SELECT c.pause_version, p.id, p.namespace_id, p.kind, p.name, p.paused_at, p.resumed_at
      FROM clock c
      LEFT JOIN (SELECT * FROM pauses WHERE resumed_at IS NULL
                  UNION ALL
                 SELECT p.*
                   FROM namespaces n
                  CROSS JOIN LATERAL (SELECT *
                                        FROM pauses
                                       WHERE namespace_id = n.id AND resumed_at IS NOT NULL
                                       ORDER BY resumed_at DESC
                                       LIMIT $1) p) p ON true";

/// The first end of a pause of a flow or a connection after an instant, and when the first of those began that had not
/// ended before and overlap with it: one that ends later may have begun earlier.
const OVER: &str = "
    SELECT (SELECT min(b.paused_at)
              FROM pauses b
             WHERE b.namespace_id = $1 AND (b.resumed_at IS NULL OR b.resumed_at > $4)
               AND ((b.kind = 'flow' AND b.name = $2) OR (b.kind = 'connection' AND b.name = $3))
               AND b.paused_at <= o.resumed_at),
           o.resumed_at
      FROM (SELECT resumed_at
              FROM pauses
             WHERE namespace_id = $1 AND resumed_at > $4
               AND ((kind = 'flow' AND name = $2) OR (kind = 'connection' AND name = $3))
             ORDER BY resumed_at
             LIMIT 1) AS o";

const VERSION: &str = "SELECT pause_version FROM clock";

/// The transactions of Semel's sessions that are open now. Each holds a lock on its own virtual
/// transaction from before its first snapshot until all that it wrote can be seen.
const OPEN_TRANSACTIONS: &str = "
    SELECT DISTINCT l.virtualtransaction
      FROM pg_locks l
      JOIN pg_stat_activity a ON a.pid = l.pid
     WHERE l.locktype = 'virtualxid' AND l.granted AND l.pid <> pg_backend_pid()
       AND a.datname = current_database() AND a.application_name = 'semel'
       AND ($1::text[] IS NULL OR l.virtualtransaction = ANY ($1))";

/// Notes that runs sleep for a pause, in the commit in which they fall asleep.
pub(crate) const HOLD: &str = "
    INSERT INTO paused_runs (run_id, pause_id)
    SELECT t.run_id, t.pause_id FROM unnest($1::uuid[], $2::int8[]) AS t (run_id, pause_id)
        ON CONFLICT (run_id) DO UPDATE SET pause_id = EXCLUDED.pause_id";

/// The same for a run of which nothing else is to be written.
const SLEEP: &str = "/* commits alone: sleep for a pause */
    WITH slept AS (
        UPDATE queue q
           SET holder = NULL, stage = 'waiting', stalled_takes = 0, suspects = 0, woken = false,
               due_at = CASE WHEN q.woken OR (q.cancel AND NOT $6::bool) THEN moment() ELSE 'infinity' END
         WHERE q.run_id = $1 AND q.epoch = $2 AND q.holder IS NOT DISTINCT FROM $3::uuid
           AND $4::int8 = (SELECT pause_version FROM clock)
     RETURNING q.run_id)
    INSERT INTO paused_runs (run_id, pause_id)
    SELECT run_id, $5::int8 FROM slept
        ON CONFLICT (run_id) DO UPDATE SET pause_id = EXCLUDED.pause_id";

/// One of the pauses that are over and still have runs. Locked, so that one server works on it.
const TAKE_ENDED: &str = "
    SELECT id, per_second
      FROM pauses
     WHERE id = ANY ($1) AND drained_at IS NULL
     ORDER BY id
     LIMIT 1
       FOR UPDATE SKIP LOCKED";

/// Makes runs due that sleep for a pause: at once, or one after the other at a rate that counts from
/// the first of them. Rows of the queue are locked in the order of identities.
const WAKE: &str = concat!(
    "
    WITH page AS MATERIALIZED (
        SELECT run_id FROM paused_runs WHERE pause_id = $1 LIMIT $2),
    gone AS (
        DELETE FROM paused_runs p USING page WHERE p.run_id = page.run_id AND p.pause_id = $1),
    locked AS MATERIALIZED (
        SELECT q.run_id, row_number() OVER (ORDER BY q.run_id) AS place
          FROM (SELECT q.run_id FROM queue q WHERE q.run_id IN (SELECT run_id FROM page)
                 ORDER BY q.run_id FOR UPDATE) q),
    pause AS MATERIALIZED (
        UPDATE pauses
           SET drain_from = coalesce(drain_from, moment()),
               woken_count = woken_count + (SELECT count(*) FROM locked),
               drained_at = CASE WHEN EXISTS (SELECT 1 FROM page) THEN NULL ELSE moment() END
         WHERE id = $1
     RETURNING drain_from, per_second, woken_count - (SELECT count(*) FROM locked) AS before)
    UPDATE queue q
       SET ",
    wakes!(
        "CASE WHEN pause.per_second IS NULL THEN moment()
                          ELSE pause.drain_from
                               + make_interval(secs => least((pause.before + locked.place - 1) / pause.per_second, 1e8)) END"
    ),
    ",
           stage = CASE WHEN q.holder IS NULL THEN 'ready' ELSE q.stage END
      FROM locked, pause
     WHERE q.run_id = locked.run_id"
);

/// Asked before the writers are awaited: what is over later was not waited for. An idle server does not
/// look at the sessions.
const ENDED: &str = "
    SELECT id FROM pauses WHERE drained_at IS NULL AND resumed_at IS NOT NULL ORDER BY id LIMIT 1000";

const IS_DRAINED: &str = "SELECT drained_at IS NOT NULL FROM pauses WHERE id = $1";

pub(crate) const STATEMENTS: &[&str] = &[
    LOAD,
    OVER,
    VERSION,
    change::LOCK_VERSION,
    change::FULL_FOR,
    change::PAUSE,
    change::RESUME,
    OPEN_TRANSACTIONS,
    HOLD,
    SLEEP,
    TAKE_ENDED,
    WAKE,
    IS_DRAINED,
    ENDED,
];

/// What can be paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PauseKind {
    /// A flow: its runs begin no step.
    Flow,
    /// A connection: no effect over it begins.
    Connection,
}

impl PauseKind {
    /// The word for it, as the table spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Flow => "flow",
            Self::Connection => "connection",
        }
    }

    pub(crate) fn read(word: &str) -> Self {
        match word {
            "connection" => Self::Connection,
            "flow" => Self::Flow,
            other => unreachable!("no pause is of a {other}"),
        }
    }
}

/// What a pause is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseSubject<'a> {
    /// The namespace.
    pub namespace_id: i32,
    /// What it is.
    pub kind: PauseKind,
    /// Its name.
    pub name: &'a str,
}

/// A pause, as servers cache it.
#[derive(Clone, Debug)]
pub struct PauseRow {
    /// The pause.
    pub id: i64,
    /// The namespace.
    pub namespace_id: i32,
    /// What is paused.
    pub kind: PauseKind,
    /// Its name.
    pub name: String,
    /// When it began.
    pub paused_at: Timestamp,
    /// When an operator ended it.
    pub resumed_at: Option<Timestamp>,
}

/// Reads the version of what is paused.
pub async fn version(cell: HomeCell<'_>) -> Result<i64, ReadError> {
    let row = cell.reader().await?.query_one(VERSION, &[]).await?;
    Ok(row.get(0))
}

/// Reads what is paused, what was, and the version of it.
pub async fn load(cell: HomeCell<'_>) -> Result<(i64, Vec<PauseRow>), ReadError> {
    let rows = cell.reader().await?.query(LOAD, &[&CACHED_MAX]).await?;
    let version = rows.first().map_or(0, |row| row.get(0));
    let read = |row: &Row| {
        Some(PauseRow {
            id: row.get::<_, Option<i64>>(1)?,
            namespace_id: row.get(2),
            kind: PauseKind::read(row.get(3)),
            name: row.get(4),
            paused_at: row.get(5),
            resumed_at: row.get(6),
        })
    };
    Ok((version, rows.iter().filter_map(read).collect()))
}

/// The first end of a pause of a flow, or of a connection, after `seen`, and since when pauses of either had held the run
/// until then. However many ended since.
pub async fn find_over(
    cell: HomeCell<'_>,
    namespace_id: i32,
    (flow, connection): (&str, Option<&str>),
    seen: Timestamp,
) -> Result<Option<(Timestamp, Timestamp)>, ReadError> {
    let values: [&(dyn ToSql + Sync); 4] = [&namespace_id, &flow, &connection, &seen];
    let row = cell.reader().await?.query_opt(OVER, &values).await?;
    Ok(row.map(|row| (row.get(0), row.get(1))))
}

/// Waits until every transaction of a server has ended that was open when this was called. False
/// where some are still open when the patience ends.
pub async fn await_writers(cell: &Cell, patience: Duration) -> Result<bool, ReadError> {
    if SeededBug::PauseWritersNotAwaited.is_seeded() {
        return Ok(true);
    }
    let until = Instant::now() + patience;
    let mut open: Option<Vec<String>> = None;
    loop {
        let client = cell.reader().await?;
        let rows = client.query(OPEN_TRANSACTIONS, &[&open]).await?;
        drop(client);
        let left: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        if left.is_empty() {
            return Ok(true);
        }
        if Instant::now() >= until {
            return Ok(false);
        }
        open = Some(left);
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// The lease of a run that falls asleep for a pause.
#[derive(Clone, Copy, Debug)]
pub struct PausedLease {
    /// The run.
    pub run: RunId,
    /// The lease under which it is held.
    pub epoch: i64,
    /// The session that holds it.
    pub session: SessionId,
    /// Whether the worker knows that an operator asks for the run's end.
    pub saw_cancel: bool,
}

/// Lets a run sleep for a pause, decided under a version of what is paused. False where the lease is
/// another's, or the version is another by now.
pub async fn sleep(
    cell: SlotCell<'_>,
    lease: PausedLease,
    version: i64,
    pause: i64,
) -> Result<bool, ReadError> {
    let values: [&(dyn ToSql + Sync); 6] = [
        lease.run.as_uuid(),
        &lease.epoch,
        lease.session.as_uuid(),
        &version,
        &pause,
        &lease.saw_cancel,
    ];
    Ok(cell.reader().await?.execute(SLEEP, &values).await? == 1)
}

/// Makes some of the runs due that sleep for one of these pauses. Says which pause that is, and whether
/// any of its runs may be left; nothing where no pause is left, or other servers work on all.
///
/// The caller has awaited the writers since [`list_ended`] named them.
pub async fn wake(cell: EveryCell<'_>, ended: &[i64]) -> Result<Option<(i64, bool)>, ReadError> {
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    let Some(row) = tx.query_opt(TAKE_ENDED, &[&ended]).await? else {
        return Ok(None);
    };
    let pause: i64 = row.get(0);
    tx.execute(WAKE, &[&pause, &WAKE_MAX]).await?;
    let drained: bool = tx.query_one(IS_DRAINED, &[&pause]).await?.get(0);
    tx.commit().await?;
    Ok(Some((pause, !drained)))
}

/// The pauses that are over and have runs that were not made due.
pub async fn list_ended(cell: HomeCell<'_>) -> Result<Vec<i64>, ReadError> {
    let rows = cell.reader().await?.query(ENDED, &[]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}
