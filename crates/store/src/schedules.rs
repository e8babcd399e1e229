//! The `schedules` and `ticks` tables: how far each schedule is decided, and what was decided.
//!
//! ```text
//! take, under a lease ══▶ runs are accepted, elsewhere ══▶ ticks and decided_to, in one commit
//! ```
//!
//! `══▶` is a commit; no transaction is open while runs are accepted. Where a process dies before the
//! last, its lease ends and another decides the same instants again; their runs are there already, under
//! the keys that the instants make. The commit that accepts a run compares the lease (`claims`), so after a take
//! nothing is accepted under an earlier one: the taker finds all runs that there will ever be. `decided_to`
//! only grows, so a clock that goes back decides nothing a second time.

mod leases;
mod rows;
mod ticks;
mod views;

pub use leases::{decide, give_back, take, take_one};
pub use ticks::{find_fired, forget, list_latest, list_ticks};
pub use views::{find, list, list_of_namespace};

use jiff::Timestamp;
use semel_model::{RunId, ScheduleId, SessionId};
use uuid::Uuid;

use crate::audit::{self, AuditEntry};
use crate::cell::{Cell, EveryCell, ReadError, SlotCell};
use rows::Rows;

/// The clock, and when the next schedule is due: all that it costs while none is.
const LOOK: &str = "
    SELECT moment(),
           (SELECT due_at FROM schedules WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1)";

/// Instants count from when the release went live; from now, where that was before it was kept.
const OPEN: &str = "
    INSERT INTO schedules (id, namespace_id, flow, release_id, version, zones, decided_to, due_at)
    SELECT t.id, t.namespace_id, t.flow, t.release_id, $6, $7, coalesce(t.live_at, moment()),
           moment()
      FROM unnest($1::uuid[], $2::int4[], $3::text[], $4::int4[], $5::timestamptz[])
        AS t (id, namespace_id, flow, release_id, live_at)
        ON CONFLICT (id) DO NOTHING";

const WAKE: &str = "UPDATE schedules SET due_at = moment() WHERE id = ANY ($1)";

const PAUSE: &str = "
    UPDATE schedules
       SET paused_at = moment(), paused_by = $2,
           due_at = CASE WHEN due_at <= moment() THEN due_at END
     WHERE id = $1 AND paused_at IS NULL";

const RECORD: &str = "
    INSERT INTO ticks (schedule_id, nominal, verdict, last, instants, reason, run_id, fired_by,
                       decided_at)
    SELECT t.schedule_id, t.nominal, t.verdict::tick_verdict, t.last, t.instants, t.reason,
           t.run_id, t.fired_by, coalesce(t.decided_at, moment())
      FROM unnest($1::uuid[], $2::timestamptz[], $3::text[], $4::timestamptz[], $5::int8[],
                  $6::text[], $7::uuid[], $8::text[], $9::timestamptz[])
        AS t (schedule_id, nominal, verdict, last, instants, reason, run_id, fired_by, decided_at)
        ON CONFLICT (schedule_id, nominal, verdict) DO NOTHING";

pub(crate) const STATEMENTS: &[&str] = &[
    LOOK,
    leases::TAKE,
    leases::TAKE_ONE,
    leases::GIVE_BACK,
    views::LIST,
    views::LIST_OF_NAMESPACE,
    views::FIND,
    OPEN,
    WAKE,
    PAUSE,
    leases::DECIDE,
    RECORD,
    ticks::TICKS,
    ticks::FIND_FIRED,
    ticks::LATEST,
    ticks::FORGET,
];

/// A schedule, as far as it is decided.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// The schedule.
    pub id: ScheduleId,
    /// The namespace that owns it.
    pub namespace_id: i32,
    /// The flow's name.
    pub flow: String,
    /// The release whose recurrence is in force.
    pub release_id: Option<i32>,
    /// The state of the control data that it was last decided by.
    pub version: i64,
    /// The edition of the time zones that it was last decided with.
    pub zones: String,
    /// Every instant up to here is decided.
    pub decided_to: Timestamp,
    /// When a server has to look at it.
    pub due_at: Option<Timestamp>,
    /// Since when it is paused.
    pub paused_at: Option<Timestamp>,
    /// Who paused it.
    pub paused_by: Option<String>,
    /// The database's time when it was read.
    pub now: Timestamp,
    /// Until when the server that took it may decide it; nothing where it was only read.
    pub leased_until: Option<Timestamp>,
}

impl Schedule {
    /// The lease that a session took it under; nothing where it was only read.
    pub fn lease(&self, holder: SessionId) -> Option<ScheduleLease> {
        let until = self.leased_until?;
        let schedule = self.id;
        Some(ScheduleLease {
            schedule,
            holder,
            until,
        })
    }
}

/// The lease of a schedule, as one take of it left it: no other take has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleLease {
    /// The schedule.
    pub schedule: ScheduleId,
    /// The session that took it.
    pub holder: SessionId,
    /// Until when that session may decide it.
    pub until: Timestamp,
}

/// A schedule that is new.
#[derive(Clone, Debug)]
pub struct NewSchedule {
    /// The schedule.
    pub id: ScheduleId,
    /// The namespace that owns it.
    pub namespace_id: i32,
    /// The flow's name.
    pub flow: String,
    /// The release whose recurrence is in force.
    pub release_id: i32,
    /// Since when it is live, where that is kept.
    pub live_at: Option<Timestamp>,
}

/// What was decided about one instant, or about several that were skipped together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tick {
    /// The instant; the first of several.
    pub nominal: Timestamp,
    /// The last of them.
    pub last: Timestamp,
    /// How many they are.
    pub instants: i64,
    /// What was decided.
    pub verdict: TickVerdict,
}

/// What happened to an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TickVerdict {
    /// It has a run.
    Fired {
        /// The run.
        run: RunId,
        /// Who fired it by hand.
        by: Option<String>,
    },
    /// It starts nothing.
    Skipped {
        /// Why: one word.
        reason: String,
    },
}

/// A recorded tick.
#[derive(Clone, Debug)]
pub struct TickView {
    /// What was decided.
    pub tick: Tick,
    /// When.
    pub decided_at: Timestamp,
}

/// How far a schedule is decided now.
#[derive(Clone, Debug)]
pub struct ScheduleDecision {
    /// The schedule.
    pub id: ScheduleId,
    /// Up to where it was decided when it was taken.
    pub before: Timestamp,
    /// When it was due when it was taken.
    pub due_before: Option<Timestamp>,
    /// Since when it was paused when it was taken.
    pub paused_before: Option<Timestamp>,
    /// The lease that it was taken under.
    pub leased_until: Option<Timestamp>,
    /// Up to where it is decided now.
    pub decided_to: Timestamp,
    /// When a server has to look at it next.
    pub due_at: Option<Timestamp>,
    /// The release whose recurrence is in force.
    pub release_id: Option<i32>,
    /// The database's time that the decision went by.
    pub now: Timestamp,
    /// Whether it stays paused, where it is.
    pub stays_paused: bool,
    /// What was decided.
    pub ticks: Vec<Tick>,
}

/// What decisions were made by.
#[derive(Clone, Copy, Debug)]
pub struct DecisionBasis {
    /// The state of the control data.
    pub version: i64,
    /// The edition of the time zones.
    pub zones: &'static str,
}

/// The database's time, and when the next schedule is due.
pub async fn look(cell: &Cell) -> Result<(Timestamp, Option<Timestamp>), ReadError> {
    let row = cell.reader().await?.query_one(LOOK, &[]).await?;
    Ok((row.get(0), row.get(1)))
}

/// Makes rows for schedules that have none.
pub async fn open(
    cell: EveryCell<'_>,
    new: &[NewSchedule],
    grounds: DecisionBasis,
) -> Result<(), ReadError> {
    let ids: Vec<Uuid> = new.iter().map(|one| *one.id.as_uuid()).collect();
    let namespaces: Vec<i32> = new.iter().map(|one| one.namespace_id).collect();
    let flows: Vec<&str> = new.iter().map(|one| one.flow.as_str()).collect();
    let releases: Vec<i32> = new.iter().map(|one| one.release_id).collect();
    let live: Vec<Option<Timestamp>> = new.iter().map(|one| one.live_at).collect();
    let DecisionBasis { version, zones } = grounds;
    cell.reader()
        .await?
        .execute(
            OPEN,
            &[
                &ids,
                &namespaces,
                &flows,
                &releases,
                &live,
                &version,
                &zones,
            ],
        )
        .await?;
    Ok(())
}

/// Has schedules looked at: what they rest on has changed.
pub async fn wake(cell: EveryCell<'_>, ids: &[ScheduleId]) -> Result<(), ReadError> {
    let ids: Vec<Uuid> = ids.iter().map(|id| *id.as_uuid()).collect();
    cell.reader().await?.execute(WAKE, &[&ids]).await?;
    Ok(())
}

/// Pauses a schedule. False if it was paused before, or is not there. The act is recorded in the
/// same commit.
pub async fn pause(
    cell: SlotCell<'_>,
    id: ScheduleId,
    by: &str,
    act: &AuditEntry,
) -> Result<bool, ReadError> {
    Ok(audit::execute(cell, PAUSE, &[id.as_uuid(), &by], act).await? == 1)
}

/// Writes down that an instant was fired by hand. One that has a run already stays as it is.
pub async fn record(cell: SlotCell<'_>, id: ScheduleId, tick: &Tick) -> Result<(), ReadError> {
    let rows = Rows::of([(id, tick, None)].into_iter());
    cell.reader().await?.execute(RECORD, &rows.values()).await?;
    Ok(())
}
