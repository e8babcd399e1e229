//! Schedules that a server has under a lease, and what it decides of them.

use std::collections::HashSet;

use jiff::Timestamp;
use semel_model::{ScheduleId, SessionId, Span};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::rows::{Rows, read_taken};
use super::{DecisionBasis, RECORD, Schedule, ScheduleDecision};
use crate::audit::{self, AuditEntry};
use crate::cell::{Cell, EveryCell, ReadError, SlotCell};

/// Also those that this session still holds: its process decides one batch at a time, so it does not know of them.
pub(super) const TAKE: &str = "/* commits alone: take schedules */
    UPDATE schedules s
       SET holder = $1, leased_until = moment() + make_interval(secs => $2)
     WHERE s.id = ANY (ARRAY(
           SELECT d.id
             FROM schedules d
            WHERE d.due_at <= (SELECT moment())
              AND (d.holder IS NULL OR d.holder = $1 OR d.leased_until <= (SELECT moment())
                   OR NOT EXISTS (SELECT 1 FROM sessions x
                                   WHERE x.id = d.holder AND x.lost_at IS NULL
                                     AND x.expires_at > (SELECT moment())))
              AND EXISTS (SELECT 1 FROM sessions
                           WHERE id = $1 AND lost_at IS NULL AND expires_at > (SELECT moment()))
            ORDER BY d.due_at
            LIMIT $3
              FOR UPDATE OF d SKIP LOCKED))
 RETURNING s.id, s.namespace_id, s.flow, s.release_id, s.version, s.zones, s.decided_to, s.due_at,
           s.paused_at, s.paused_by, moment(), s.leased_until";

/// Whoever has it: the decision of the former holder is refused.
pub(super) const TAKE_ONE: &str = "/* commits alone: take schedule */
    UPDATE schedules s
       SET holder = $2, leased_until = moment() + make_interval(secs => $3)
     WHERE s.id = $1
 RETURNING s.id, s.namespace_id, s.flow, s.release_id, s.version, s.zones, s.decided_to, s.due_at,
           s.paused_at, s.paused_by, moment(), s.leased_until";

pub(super) const GIVE_BACK: &str = "
    UPDATE schedules SET holder = NULL, leased_until = NULL WHERE id = ANY ($1) AND holder = $2";

/// Each schedule must be as it was taken: leased to the same server in the same take, neither paused nor resumed since,
/// nor woken because what it rests on has changed.
pub(super) const DECIDE: &str = "
    UPDATE schedules s
       SET release_id = t.release_id, version = $6, zones = $7, due_at = t.due_at,
           decided_to = t.decided_to, paused_at = CASE WHEN t.paused THEN s.paused_at END,
           paused_by = CASE WHEN t.paused THEN s.paused_by END, holder = NULL, leased_until = NULL
      FROM unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[], $4::timestamptz[],
                  $5::int4[], $8::bool[], $9::timestamptz[], $10::timestamptz[], $11::timestamptz[])
        AS t (id, before, decided_to, due_at, release_id, paused, due_before, paused_before, leased_until)
     WHERE s.id = t.id AND s.decided_to = t.before AND t.decided_to >= t.before
       AND s.holder = $12 AND s.leased_until = t.leased_until
       AND s.due_at IS NOT DISTINCT FROM t.due_before
       AND s.paused_at IS NOT DISTINCT FROM t.paused_before
 RETURNING s.id";

/// Takes schedules that are due and that no other server has, the earliest due first.
pub async fn take(
    cell: &Cell,
    session: SessionId,
    lease: Span,
    most: i64,
) -> Result<Vec<Schedule>, ReadError> {
    let secs = lease.as_secs_f64();
    let values: [&(dyn ToSql + Sync); 3] = [session.as_uuid(), &secs, &most];
    let rows = cell.reader().await?.query(TAKE, &values).await?;
    let mut taken: Vec<Schedule> = rows.iter().map(read_taken).collect();
    taken.sort_by_key(|schedule| schedule.due_at);
    Ok(taken)
}

/// Takes one schedule, due or not, even from a server that has it.
pub async fn take_one(
    cell: SlotCell<'_>,
    id: ScheduleId,
    session: SessionId,
    lease: Span,
) -> Result<Option<Schedule>, ReadError> {
    let secs = lease.as_secs_f64();
    let values: [&(dyn ToSql + Sync); 3] = [id.as_uuid(), session.as_uuid(), &secs];
    let row = cell.reader().await?.query_opt(TAKE_ONE, &values).await?;
    Ok(row.as_ref().map(read_taken))
}

/// Gives back those of some schedules that a session still holds.
pub async fn give_back(
    cell: EveryCell<'_>,
    session: SessionId,
    ids: &[ScheduleId],
) -> Result<(), ReadError> {
    let ids: Vec<Uuid> = ids.iter().map(|id| *id.as_uuid()).collect();
    let values: [&(dyn ToSql + Sync); 2] = [&ids, session.as_uuid()];
    cell.reader().await?.execute(GIVE_BACK, &values).await?;
    Ok(())
}

/// Records what was decided, and gives those schedules back. Says which: nothing is written for a schedule that is not as
/// it was taken. If an operator asked for the decision, the act is recorded in the same commit.
pub async fn decide(
    cell: EveryCell<'_>,
    session: SessionId,
    made: &[ScheduleDecision],
    grounds: DecisionBasis,
    act: Option<&AuditEntry>,
) -> Result<HashSet<ScheduleId>, ReadError> {
    if made.is_empty() {
        return Ok(HashSet::new());
    }
    let ids: Vec<Uuid> = made.iter().map(|one| *one.id.as_uuid()).collect();
    let before: Vec<Timestamp> = made.iter().map(|one| one.before).collect();
    let decided: Vec<Timestamp> = made.iter().map(|one| one.decided_to).collect();
    let due: Vec<Option<Timestamp>> = made.iter().map(|one| one.due_at).collect();
    let releases: Vec<Option<i32>> = made.iter().map(|one| one.release_id).collect();
    let paused: Vec<bool> = made.iter().map(|one| one.stays_paused).collect();
    let due_before: Vec<Option<Timestamp>> = made.iter().map(|one| one.due_before).collect();
    let paused_before: Vec<Option<Timestamp>> = made.iter().map(|one| one.paused_before).collect();
    let leased: Vec<Option<Timestamp>> = made.iter().map(|one| one.leased_until).collect();
    let DecisionBasis { version, zones } = grounds;
    let values: [&(dyn ToSql + Sync); 12] = [
        &ids,
        &before,
        &decided,
        &due,
        &releases,
        &version,
        &zones,
        &paused,
        &due_before,
        &paused_before,
        &leased,
        session.as_uuid(),
    ];
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    let written = tx.query(DECIDE, &values).await?;
    let written = written.iter().map(|row| ScheduleId::from_uuid(row.get(0)));
    let written: HashSet<ScheduleId> = written.collect();
    if written.is_empty() {
        return Ok(written);
    }
    let ticks = made.iter().filter(|one| written.contains(&one.id));
    let ticks = ticks.flat_map(|one| {
        one.ticks
            .iter()
            .map(move |tick| (one.id, tick, Some(one.now)))
    });
    let rows = Rows::of(ticks);
    tx.execute(RECORD, &rows.values()).await?;
    if let Some(act) = act {
        audit::append(&tx, act).await?;
    }
    tx.commit().await?;
    Ok(written)
}
