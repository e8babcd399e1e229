//! The `gates`, `gate_entries` and `gate_starts` tables: which runs are inside, which wait, and
//! when starts are free.
//!
//! Visits to many gates are one transaction. It locks each gate's row first, in the order of their
//! identities, reads the entries that the visits can concern, has each gate's `AdmissionState`
//! decide, and writes what changed. Commit points: there is one, the `COMMIT` of [`AdmissionBatch`]. A
//! visit may be submitted twice: a run that is inside gets the same answer again, a run that has
//! left is gone.
//!
//! Nothing here touches a run. The runs that have to look at a gate are returned as [`WakeUp`]; an
//! entry keeps its wake-up until its run has come, so that a lost wake-up is found again.

use jiff::Timestamp;
use semel_model::gate::{GateEntry, GatePlace, WakeUp};
use semel_model::{GateId, RunId};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::cell::{Cell, EveryCell, ReadError, SlotCell};

mod admission_batch;
mod statements;

pub use admission_batch::{AdmissionBatch, GateRequest, GateResponse, start_visiting};

/// A wake-up older than that was lost.
const OVERDUE: &str = "
    WITH late AS (
        SELECT gate_id, run_id
          FROM gate_entries
         WHERE wake_since < (SELECT moment()) - interval '2 seconds'
         ORDER BY wake_since
         LIMIT $1
           FOR UPDATE SKIP LOCKED)
    UPDATE gate_entries t
       SET wake_since = greatest(moment(), t.ready_at)
      FROM late
     WHERE t.gate_id = late.gate_id AND t.run_id = late.run_id
 RETURNING t.run_id, greatest(moment(), t.ready_at)";

const FIND: &str = "
    SELECT run_id, place::text, accepted_at, after_seq, related_run, ready_at, wake_since IS NOT NULL
      FROM gate_entries
     WHERE gate_id = $1 AND run_id = $2";

const HOLDER: &str = "
    SELECT run_id
      FROM gate_entries
     WHERE gate_id = $1 AND place IN ('running', 'granted')
     ORDER BY accepted_at, run_id
     LIMIT 1";

const AHEAD: &str = "
    SELECT count(*)
      FROM (SELECT 1
              FROM gate_entries
             WHERE gate_id = $1 AND place = 'waiting' AND (accepted_at, run_id) < ($2, $3)
             LIMIT $4) AS ahead";

/// A gate whose starts no longer count, and that no run is at.
const FORGET: &str = "
    WITH idle AS (
        SELECT id
          FROM gates g
         WHERE g.idle_at < (SELECT moment()) AND g.running = 0 AND g.granted = 0
           AND NOT EXISTS (SELECT 1 FROM gate_entries t WHERE t.gate_id = g.id)
         ORDER BY g.idle_at
         LIMIT $1
           FOR UPDATE SKIP LOCKED),
    forgotten AS (
        DELETE FROM gate_starts s USING idle WHERE s.gate_id = idle.id)
    DELETE FROM gates g USING idle WHERE g.id = idle.id";

pub(crate) const STATEMENTS: &[&str] = &[
    OVERDUE,
    FIND,
    HOLDER,
    AHEAD,
    FORGET,
    statements::HOLD,
    statements::OWN,
    statements::LINE,
    statements::OTHERS,
    statements::JOINED,
    statements::PAST,
    statements::PUT,
    statements::REMOVE,
    statements::KEEP,
    statements::CLOSE,
    statements::START,
    statements::PASS,
];

/// The most runs that are woken again in one pass.
const OVERDUE_MAX: i64 = 256;

/// The most runs that are counted ahead of a run.
pub const AHEAD_MAX: i64 = 1_000;

/// Runs that were woken and did not come.
pub async fn list_overdue(cell: &Cell) -> Result<Vec<WakeUp>, ReadError> {
    let client = cell.reader().await?;
    let rows = client.query(OVERDUE, &[&OVERDUE_MAX]).await?;
    Ok(rows
        .iter()
        .map(|row| WakeUp {
            run: RunId::from_uuid(row.get(0)),
            at: row.get(1),
        })
        .collect())
}

/// A run's place at a gate, where it has one.
pub async fn find_entry(
    cell: SlotCell<'_>,
    gate: GateId,
    run: RunId,
) -> Result<Option<GateEntry>, ReadError> {
    let client = cell.reader().await?;
    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [gate.as_uuid(), run.as_uuid()];
    let row = client.query_opt(FIND, &values).await?;
    Ok(row.as_ref().map(|row| read_entry(row, 0)))
}

/// A run's place at a gate as an operator sees it.
#[derive(Clone, Debug)]
pub struct QueuePosition {
    /// Where it is.
    pub place: GatePlace,
    /// A run that is inside.
    pub behind: Option<RunId>,
    /// How many runs are before it in line, up to [`AHEAD_MAX`].
    pub ahead: i64,
    /// When it may come, where that is known.
    pub ready_at: Option<Timestamp>,
}

/// A run's position at a gate; nothing if it is not there.
pub async fn find_position(
    cell: SlotCell<'_>,
    gate: GateId,
    run: RunId,
) -> Result<Option<QueuePosition>, ReadError> {
    let Some(ticket) = find_entry(cell, gate, run).await? else {
        return Ok(None);
    };
    let client = cell.reader().await?;
    let holder = client.query_opt(HOLDER, &[gate.as_uuid()]).await?;
    let ahead = client
        .query_one(
            AHEAD,
            &[
                gate.as_uuid(),
                &ticket.accepted_at,
                run.as_uuid(),
                &AHEAD_MAX,
            ],
        )
        .await?
        .get(0);
    let inside = holder.map(|row| RunId::from_uuid(row.get(0)));
    let behind = match ticket.place {
        GatePlace::Joining | GatePlace::Dropped => ticket.related_run,
        GatePlace::Waiting | GatePlace::Debouncing | GatePlace::Granted | GatePlace::Running => {
            inside
        }
    };
    Ok(Some(QueuePosition {
        place: ticket.place,
        behind: behind.filter(|behind| *behind != run),
        ahead,
        ready_at: ticket.ready_at,
    }))
}

/// Forgets gates whose starts no longer count.
pub(crate) async fn forget(cell: EveryCell<'_>, most: i64) -> Result<u64, ReadError> {
    Ok(cell.reader().await?.execute(FORGET, &[&most]).await?)
}

/// Reads an entry whose columns begin at `at`.
fn read_entry(row: &Row, at: usize) -> GateEntry {
    let place: &str = row.get(at + 1);
    let Ok(place) = place.parse() else {
        unreachable!("no ticket has the place {place}")
    };
    GateEntry {
        run: RunId::from_uuid(row.get(at)),
        place,
        accepted_at: row.get(at + 2),
        after_seq: row.get(at + 3),
        related_run: row.get::<_, Option<Uuid>>(at + 4).map(RunId::from_uuid),
        ready_at: row.get(at + 5),
        needs_wake_up: row.get(at + 6),
    }
}
