//! Correcting the result that an operator gave for an effect. The correction, the resumption of the
//! run, the audit record and what the named effect is told are one commit.

use semel_model::event::Event;
use semel_model::{EffectId, RunId, Span};

use super::reopen::REOPEN;
use crate::attention;
use crate::audit::{self, AuditEntry};
use crate::cell::{ReadError, SlotCell};
use crate::column_text::ColumnText;
use crate::journal::to_text;
use crate::named_effects::{NOTE, NameNotice, NoticeOrigin, NoticeRows};

/// The part of [`REOPEN`] for a run that is stopped and that no worker holds.
pub(super) const UNPARK: &str = concat!(
    "
    WITH present AS MATERIALIZED (SELECT moment() AS now),
    freed AS (
        UPDATE queue q
           SET seq = q.seq + 1, epoch = q.epoch + 1, stalled_takes = 0, suspects = 0, stage = 'ready',
               due_at = p.now
          FROM present p, runs r
         WHERE q.run_id = $1 AND q.holder IS NULL AND q.stage = 'stopped'
           AND r.id = q.run_id AND r.state IN ('needs_review', 'quarantined')
     RETURNING q.run_id, q.epoch, q.seq, q.partition_date),
    active AS (
        UPDATE runs r SET state = 'active', result = NULL, fault = NULL, fault_code = NULL
          FROM freed f
         WHERE r.id = f.run_id),
    written AS (
        INSERT INTO journal (partition_date, run_id, seq, epoch, at, events)
        SELECT f.partition_date, f.run_id, f.seq, f.epoch, p.now, $2::text::json FROM freed f, present p)",
    attention::freed!(),
    "
    SELECT count(*) FROM freed"
);

/// A done effect stays done; the name that the destination has for it may have been recorded
/// wrongly. Nothing happens if the journal has grown since it was read.
pub(super) const EXTERNAL_ID: &str = "
    UPDATE effects e
       SET external_id = coalesce($3::text, e.external_id), note = 'amended by a person'
      FROM runs r
     WHERE r.id = $1 AND e.partition_date = r.partition_date AND e.id = $2 AND e.state = 'done'
       AND (SELECT max(j.seq) FROM journal j WHERE j.partition_date = r.partition_date AND j.run_id = r.id) = $4";

/// What is corrected.
#[derive(Clone, Copy, Debug)]
pub struct Amended<'a> {
    /// The run.
    pub run: RunId,
    /// The effect.
    pub effect: EffectId,
    /// What the destination calls it; as it was, when absent.
    pub external_id: Option<&'a str>,
    /// The last row of the journal that the correction was judged by.
    pub seq: i32,
    /// How long a key that was free is held again.
    pub keep: Span,
    /// The namespace that owns the run.
    pub namespace_id: i32,
    /// What the named effect is told, where the step has a business key.
    pub notice: Option<&'a NameNotice>,
}

/// Corrects the result of an effect, with the events that say so, and resumes its run. False if the
/// run has moved meanwhile, or a worker holds it.
pub async fn amend(
    cell: SlotCell<'_>,
    amended: &Amended<'_>,
    events: &[Event],
    act: &AuditEntry,
) -> Result<bool, ReadError> {
    let Amended {
        run,
        effect,
        external_id,
        seq,
        keep,
        namespace_id,
        notice,
    } = amended;
    let external_id = external_id.map(ColumnText::indexed);
    let secs = keep.as_secs_f64();
    let events = to_text(events);
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    let reopen: [&(dyn tokio_postgres::types::ToSql + Sync); 3] = [run.as_uuid(), &events, &secs];
    let mut freed = tx.query_one(REOPEN, &reopen).await?;
    if freed.get::<_, i64>(0) == 0 {
        freed = tx.query_one(UNPARK, &[run.as_uuid(), &events]).await?;
    }
    let written = seq + 1;
    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
        [run.as_uuid(), effect.as_uuid(), &external_id, &written];
    // The next row is our own, unless another was written in between: then nothing is kept.
    if freed.get::<_, i64>(0) == 0 || tx.execute(EXTERNAL_ID, &values).await? == 0 {
        tx.rollback().await?;
        return Ok(false);
    }
    let mut notices = NoticeRows::default();
    if let Some(notice) = notice {
        let origin = NoticeOrigin {
            run: *run,
            seq: written,
            namespace_id: *namespace_id,
        };
        notices.push(origin, notice);
    }
    if let Some(values) = notices.values() {
        tx.execute(NOTE, &values).await?;
    }
    audit::append(&tx, act).await?;
    tx.commit().await?;
    Ok(true)
}
