//! Runs that return to the queue without having moved.
//!
//! Each is named by its lease: the run, the epoch and the session. A return whose answer was lost
//! can be sent again at any time later; it finds nothing once the run was taken again, even by the
//! same session.
//!
//! Each take adds to the count, and a write to the journal resets it. A return keeps the count and
//! lets the run rest, longer each time, so that a run which makes no progress is quarantined at the
//! limit instead of being taken again at full speed. Only a process that stops, or does not begin the
//! run, takes its own take back, once for an epoch.

use std::time::Duration;

use semel_model::{ClaimId, RunId, SessionId};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::cell::{Cell, ReadError};

/// Gives runs back that the session `$3` holds under the epochs `$2`. A statement says only what else
/// it sets.
macro_rules! give_back {
    ($comment:literal, $set:literal) => {
        concat!(
            $comment,
            "
    UPDATE queue q
       SET holder = NULL, ",
            $set,
            "
      FROM unnest($1::uuid[], $2::int8[]) AS t (run_id, epoch)
     WHERE q.run_id = ANY (ARRAY[t.run_id]) AND q.epoch = t.epoch
       AND q.holder IS NOT DISTINCT FROM $3"
        )
    };
}

pub(super) use give_back;

/// As if they had not been taken: they stay due, and the take does not count. With `$5` they rest for so many
/// seconds; without, `greatest` leaves out what is null. Of a group of suspects, nothing happened to those that did
/// not begin: their next group may have as many.
pub(super) const PUT_BACK: &str = give_back!(
    "/* commits alone: put back */",
    "stalled_takes = greatest(q.stalled_takes - $4, 0), suspects = -abs(q.suspects),
           due_at = greatest(q.due_at, moment() + make_interval(secs => $5))"
);

/// The pause doubles with each take: half a second after the first, eight after the fifth.
pub(super) const RETURN: &str = give_back!(
    "/* commits alone: return */",
    "stage = 'ready',
           stalled_takes = CASE WHEN $4::text = 'stopping' THEN greatest(q.stalled_takes - 1, 0) ELSE q.stalled_takes END,
           due_at = CASE WHEN $4 = 'trouble'
                         THEN moment() + make_interval(secs => 0.25 * 2 ^ least(q.stalled_takes, 8))
                         ELSE moment() END"
);

pub(super) const HELD_BESIDES: &str = "
    SELECT q.run_id, q.epoch, (SELECT r.claim_id FROM runs r WHERE r.id = q.run_id)
      FROM queue q
     WHERE q.holder = $1 AND q.run_id <> ALL ($2::uuid[])
     LIMIT $3";

/// How long one try to return runs may take.
const RETURN_PATIENCE: Duration = Duration::from_secs(5);

/// How long one look may take: no batch of takes begins meanwhile.
const LOOK_PATIENCE: Duration = Duration::from_secs(2);

/// The most runs that one look finds.
const FOUND_MAX: i64 = 1_000;

/// Why a run returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnCause {
    /// The process stops, or something was paused or resumed meanwhile: the run is due at once, and this
    /// take does not count.
    Stopping,
    /// Something else changed the run first: it is due at once, and the take counts.
    Overtaken,
    /// Anything else: the run rests, longer with each take.
    Trouble,
}

impl ReturnCause {
    fn as_str(self) -> &'static str {
        match self {
            Self::Stopping => "stopping",
            Self::Overtaken => "overtaken",
            Self::Trouble => "trouble",
        }
    }
}

/// A run that a session holds, as the queue has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldRun {
    /// The run.
    pub run: RunId,
    /// The lease under which it is held.
    pub epoch: i64,
    /// The claim that made it.
    pub claim: ClaimId,
}

/// Returns runs that a session holds under these epochs. Gives how many it still held.
pub async fn return_runs(
    cell: &Cell,
    session: SessionId,
    leases: &[(RunId, i64)],
    cause: ReturnCause,
) -> Result<u64, ReadError> {
    let (runs, epochs) = columns(leases);
    let cause = cause.as_str();
    let values: [&(dyn ToSql + Sync); 4] = [&runs, &epochs, session.as_uuid(), &cause];
    let lane = cell.recovery();
    lane.execute(RETURN, &values, RETURN_PATIENCE).await
}

/// Puts runs back that were taken and do not begin: the take, which counted `charge`, does not count. They stay
/// due, or rest for so long.
pub async fn put_back(
    cell: &Cell,
    session: SessionId,
    leases: &[(RunId, i64)],
    charge: i16,
    rest: Option<Duration>,
) -> Result<(), ReadError> {
    let (runs, epochs) = columns(leases);
    let rest = rest.map(|rest| rest.as_secs_f64());
    let values: [&(dyn ToSql + Sync); 5] = [&runs, &epochs, session.as_uuid(), &charge, &rest];
    let lane = cell.recovery();
    lane.execute(PUT_BACK, &values, RETURN_PATIENCE).await?;
    Ok(())
}

/// The columns of leases, in the one order in which rows of the queue are locked.
fn columns(leases: &[(RunId, i64)]) -> (Vec<Uuid>, Vec<i64>) {
    let mut leases = leases.to_vec();
    leases.sort_unstable();
    let lease = |(run, epoch): &(RunId, i64)| (*run.as_uuid(), *epoch);
    leases.iter().map(lease).unzip()
}

/// Lists runs that a session holds, but for those that are known to be carried.
pub async fn list_held_besides(
    cell: &Cell,
    session: SessionId,
    carried: &[RunId],
) -> Result<Vec<HeldRun>, ReadError> {
    let carried: Vec<Uuid> = carried.iter().map(|run| *run.as_uuid()).collect();
    let values: [&(dyn ToSql + Sync); 3] = [session.as_uuid(), &carried, &FOUND_MAX];
    let lane = cell.recovery();
    let rows = lane.query(HELD_BESIDES, &values, LOOK_PATIENCE).await?;
    let read = |row: &tokio_postgres::Row| HeldRun {
        run: RunId::from_uuid(row.get(0)),
        epoch: row.get(1),
        claim: ClaimId::from_uuid(row.get(2)),
    };
    Ok(rows.iter().map(read).collect())
}
