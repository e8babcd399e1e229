//! Runs that make no progress: taken alone, put off, and quarantined without reading their journal.
//!
//! A run that was taken twice without progress is a suspect: it may be what ended its process. A
//! process holds one suspect at a time. So whatever is counted against a run from its third take on
//! is its own doing, or at least not another suspect's; only such a run is ever quarantined for it.

use semel_model::event::Event;
use semel_model::run::StopReason;
use semel_model::{Fault, RunId, SessionId};
use tokio_postgres::Error;
use tokio_postgres::types::ToSql;

use super::fair::first_runs;
use super::load::load;
use super::returned::give_back;
use super::{Taken, Taker};
use crate::alerts::raise;
use crate::attention;
use crate::cell::{ReadError, SlotCell};
use crate::column_text::ColumnText;
use crate::journal::to_text;

/// Only the oldest of each namespace that are due are searched: runs behind them move forward with time. The count
/// has a limit, because a column has one.
pub(super) const TAKE_SUSPECT: &str = concat!(
    "/* commits alone: take suspect */",
    first_runs!(""),
    ",
    oldest AS MATERIALIZED (
        SELECT t.run_id, t.stalled_takes
          FROM firsts f
         CROSS JOIN LATERAL (SELECT q.run_id, q.stalled_takes
                               FROM queue q
                              WHERE q.holder IS NULL AND q.namespace_id = f.namespace_id
                                AND q.due_at <= (SELECT moment())
                              ORDER BY q.due_at
                              LIMIT 200) t),
    suspect AS (
        SELECT q.run_id
          FROM queue q
         WHERE q.run_id = ANY (ARRAY(SELECT run_id FROM oldest WHERE stalled_takes >= 2 LIMIT 8))
           AND q.holder IS NULL AND q.due_at <= (SELECT moment())
           AND EXISTS (SELECT 1 FROM sessions
                        WHERE id = $1 AND lost_at IS NULL AND expires_at > (SELECT moment()))
         LIMIT 1
           FOR UPDATE OF q SKIP LOCKED)
    UPDATE queue q
       SET holder = $1, epoch = q.epoch + 1, stalled_takes = least(q.stalled_takes + 1, 100)
     WHERE q.run_id = ANY (ARRAY(SELECT run_id FROM suspect))
 RETURNING q.run_id, q.epoch, q.seq, q.stalled_takes, q.cancel, q.partition_date"
);

/// What another process may be able to read is not counted against the run.
pub(super) const DEFER: &str = give_back!(
    "/* commits alone: defer */",
    "stalled_takes = CASE WHEN $5 THEN q.stalled_takes ELSE 0 END,
           due_at = moment() + make_interval(secs => $4)"
);

/// Carries nothing of what was refused, and needs nothing of what cannot be read. The queue's own
/// number is the one to follow on: a write whose answer was lost may have landed.
pub(super) const QUARANTINE: &str = concat!(
    "/* commits alone: quarantine */
    WITH present AS MATERIALIZED (SELECT moment() AS now),
    stopped AS (
        UPDATE queue
           SET holder = NULL, stage = 'stopped', stalled_takes = 0, woken = false,
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
    /// Takes one run that is due and was taken before without progress, and loads it.
    pub async fn take_suspect(&mut self, session: SessionId) -> Result<Option<Taken>, Error> {
        self.prepared().await?;
        let counts = semel_model::SeededBug::TakesNotCounted;
        let text = counts.in_text(
            TAKE_SUSPECT,
            "least(q.stalled_takes + 1, 100)",
            "q.stalled_takes",
        );
        let ready = self.connection.prepare(&[text]).await?;
        let statement = ready.statement(text);
        let rows = ready.client.query(statement, &[session.as_uuid()]).await?;
        if rows.is_empty() {
            return Ok(None);
        }
        let taken = load(ready, &rows, usize::MAX).await?.0.pop();
        Ok(taken.map(|taken| Taken {
            charged: true,
            ..taken
        }))
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
