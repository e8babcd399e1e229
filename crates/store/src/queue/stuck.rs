//! Runs that make no progress: taken in groups, put off, and quarantined without reading their journal.
//!
//! A run that was taken twice without progress is a suspect: it may be what ended its process. A
//! process holds one group of suspects at a time:
//!
//! | the run before this take | the most that its group has |
//! |---|---|
//! | no suspect | the most that any group has |
//! | in a group whose process ended | half of that group |
//! | in a group, and came back without progress | half of that group |
//! | in a group, and was put back before it began | as many as that group |
//! | alone | it is alone |
//!
//! Only a take alone counts, so that no run is quarantined for what another suspect does. The smallest
//! group is taken first, and of equals the run that was taken most often.
//!
//! The groups of a run that ends its processes halve without exception, whatever other servers carry
//! meanwhile: it is alone before long. The others cost little. A crash divides one group in two, so it adds
//! one group to those that come after; and as the smallest go first, groups double while nothing crashes.

use semel_model::event::Event;
use semel_model::run::StopReason;
use semel_model::{Fault, RunId, SessionId};
use tokio_postgres::Error;
use tokio_postgres::types::ToSql;

use super::fair::first_runs;
use super::load::{load, put_back as return_unloaded};
use super::returned::give_back;
use super::{Taken, Taker};
use crate::alerts::raise;
use crate::attention;
use crate::cell::{ReadError, SlotCell};
use crate::column_text::ColumnText;
use crate::journal::to_text;

/// Only the oldest of each namespace that are due are searched: runs behind them move forward with time. The count
/// has a limit, because a column has one.
pub(super) const TAKE_SUSPECTS: &str = concat!(
    "/* commits alone: take suspects */",
    first_runs!(""),
    ",
    oldest AS MATERIALIZED (
        SELECT t.run_id, t.epoch, t.stalled_takes,
               CASE WHEN t.stalled_takes > 2 THEN 1
                    WHEN t.suspects = 0 THEN $2::int4
                    WHEN t.suspects < 0 THEN -t.suspects
                    ELSE greatest(t.suspects / 2, 1) END AS most
          FROM firsts f
         CROSS JOIN LATERAL (SELECT q.run_id, q.epoch, q.stalled_takes, q.suspects
                               FROM queue q
                              WHERE q.holder IS NULL AND q.namespace_id = f.namespace_id
                                AND q.due_at <= (SELECT moment())
                              ORDER BY q.due_at
                              LIMIT 200) t
         WHERE t.stalled_takes >= 2),
    ranked AS MATERIALIZED (
        SELECT run_id, most,
               row_number() OVER (ORDER BY most, stalled_takes DESC, epoch DESC, run_id) AS place
          FROM oldest),
    chosen AS MATERIALIZED (
        SELECT q.run_id
          FROM queue q
         WHERE q.run_id = ANY (ARRAY(SELECT r.run_id
                                       FROM ranked r
                                      WHERE r.place <= (SELECT least(f.most, $2)
                                                          FROM ranked f
                                                         WHERE f.place = 1)))
           AND q.holder IS NULL AND q.due_at <= (SELECT moment())
           AND EXISTS (SELECT 1 FROM sessions
                        WHERE id = $1 AND lost_at IS NULL AND expires_at > (SELECT moment()))
           FOR UPDATE OF q SKIP LOCKED)
    UPDATE queue q
       SET holder = $1, epoch = q.epoch + 1, suspects = g.size,
           stalled_takes = CASE WHEN g.size = 1 THEN least(q.stalled_takes + 1, 100)
                                ELSE q.stalled_takes END
      FROM (SELECT count(*)::int2 AS size FROM chosen) g
     WHERE q.run_id = ANY (ARRAY(SELECT run_id FROM chosen))
 RETURNING q.run_id, q.epoch, q.seq, q.stalled_takes, q.cancel, q.partition_date"
);

/// The most suspects of one group.
const SUSPECTS_MAX: usize = 64;

/// What another process may be able to read is not counted against the run.
pub(super) const DEFER: &str = give_back!(
    "/* commits alone: defer */",
    "stalled_takes = CASE WHEN $5 THEN q.stalled_takes ELSE 0 END,
           suspects = CASE WHEN $5 THEN q.suspects ELSE 0 END,
           due_at = moment() + make_interval(secs => $4)"
);

/// Carries nothing of what was refused, and needs nothing of what cannot be read. The queue's own
/// number is the one to follow on: a write whose answer was lost may have landed.
pub(super) const QUARANTINE: &str = concat!(
    "/* commits alone: quarantine */
    WITH present AS MATERIALIZED (SELECT moment() AS now),
    stopped AS (
        UPDATE queue
           SET holder = NULL, stage = 'stopped', stalled_takes = 0, suspects = 0, woken = false,
               due_at = CASE WHEN cancel THEN moment() ELSE 'infinity' END,
               seq = seq + 1
         WHERE run_id = $1 AND epoch = $2 AND holder IS NOT DISTINCT FROM $3
     RETURNING run_id, partition_date, seq, epoch),
    recorded AS (
        UPDATE runs r
           SET state = 'quarantined', fault = $4::text::json, fault_code = $6
          FROM stopped p
         WHERE r.id = p.run_id),
    written AS (
        INSERT INTO journal (partition_date, run_id, seq, epoch, at, events)
        SELECT p.partition_date, p.run_id, p.seq, p.epoch, t.now, $5::text::json
          FROM stopped p, present t
            ON CONFLICT DO NOTHING)",
    attention::quarantined!(),
    ",
    raised AS (
        ",
    raise!(
        "SELECT r.namespace_id, 'quarantined' AS kind, f.name AS flow, '' AS connection, '' AS step,
               p.run_id, 1 AS count
          FROM stopped p
          JOIN runs r ON r.id = p.run_id
          JOIN releases e ON e.id = r.release_id
          JOIN flows f ON f.id = e.flow_id"
    ),
    ")
    SELECT count(*) FROM stopped"
);

impl Taker {
    /// Takes a group of runs that are due and were taken before without progress, at most `limit` of
    /// them, and loads them.
    pub async fn take_suspects(
        &mut self,
        session: SessionId,
        limit: usize,
    ) -> Result<Vec<Taken>, Error> {
        let bytes_max = self.bytes_max;
        self.prepared().await?;
        let counts = semel_model::SeededBug::TakesNotCounted;
        let text = counts.in_text(
            TAKE_SUSPECTS,
            "least(q.stalled_takes + 1, 100)",
            "q.stalled_takes",
        );
        let ready = self.connection.prepare(&[text]).await?;
        let limit = i32::try_from(limit.min(SUSPECTS_MAX)).unwrap_or(1);
        let values: [&(dyn ToSql + Sync); 2] = [session.as_uuid(), &limit];
        let rows = ready.client.query(ready.statement(text), &values).await?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let charged = rows.len() == 1;
        let bytes_max = if charged { usize::MAX } else { bytes_max };
        let (mut taken, _, put_back) = load(ready, &rows, bytes_max).await?;
        taken.iter_mut().for_each(|taken| taken.charged = charged);
        if !put_back.is_empty() {
            return_unloaded(ready, session, &put_back, 0).await?;
        }
        Ok(taken)
    }
}

/// Puts a run off that this process cannot read, by so many seconds; the take counts where `counts`
/// says so. False when the lease is another's.
pub async fn defer(
    cell: SlotCell<'_>,
    run: RunId,
    epoch: i64,
    session: SessionId,
    (secs, counts): (f64, bool),
) -> Result<bool, ReadError> {
    let (runs, epochs) = ([*run.as_uuid()], [epoch]);
    let values: [&(dyn ToSql + Sync); 5] = [
        &runs.as_slice(),
        &epochs.as_slice(),
        session.as_uuid(),
        &secs,
        &counts,
    ];
    Ok(cell.reader().await?.execute(DEFER, &values).await? == 1)
}

/// Quarantines a run without reading it: its record and its journal say why. False if the lease is
/// another's.
pub async fn quarantine(
    cell: SlotCell<'_>,
    run: RunId,
    epoch: i64,
    session: SessionId,
    fault: &Fault,
) -> Result<bool, ReadError> {
    let stopped = Event::Stopped {
        reason: StopReason::Quarantined,
        fault: fault.clone(),
    };
    let record = serde_json::to_string(fault).unwrap_or_else(|_| "null".to_owned());
    let events = to_text([&stopped]);
    let code = ColumnText::name(&fault.code);
    let values: [&(dyn ToSql + Sync); 6] = [
        run.as_uuid(),
        &epoch,
        session.as_uuid(),
        &record,
        &events,
        &code,
    ];
    let row = cell.reader().await?.query_one(QUARANTINE, &values).await?;
    Ok(row.get::<_, i64>(0) == 1)
}
