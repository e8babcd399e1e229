//! Runs that sleep although the callback, the event or the end of a called run that they wait for
//! is recorded.
//!
//! Every wake reaches its run, so there are none; but a build that lost wakes may have left some. A
//! pass looks at one page of the queue, whatever the runs on it do, so its cost does not grow.
//!
//! A wait that was open when its answer came is the one that its run stands at, until a row of the
//! run's journal is written after the answer. What was answered before the last row is behind the
//! run.

use semel_model::RunId;
use uuid::Uuid;

use crate::cell::{EveryCell, ReadError};

/// Leaves alone what is stopped or sleeps for a pause, a run whose answer came less than two
/// seconds ago, and one that is due within a minute: a server that cannot read it has put it off.
/// Each run's rows are looked for by themselves, so that no other row is read. Rows of the queue
/// are locked in the order of identities; a worker that takes one meanwhile reads its answer.
pub(super) const WAKE_STRANDED: &str = "/* commits alone: wake stranded */
    WITH page AS MATERIALIZED (
        SELECT q.run_id, q.partition_date, q.seq, q.epoch,
               num_nulls(q.holder) = 1 AND q.stage = 'waiting'
                   AND q.due_at > (SELECT moment()) + interval '1 minute' AS sleeps
          FROM queue q
         WHERE q.run_id > $1
         ORDER BY q.run_id
         LIMIT 1000),
    stranded AS MATERIALIZED (
        SELECT p.run_id, p.epoch
          FROM page p
         WHERE p.sleeps
           AND (SELECT 1
                  FROM waits w
                 WHERE w.run_id = ANY (ARRAY[p.run_id]) AND w.state = 'answered'
                   AND num_nulls(w.opened_at) = 0
                   AND w.ended_at < (SELECT moment()) - interval '2 seconds'
                   AND w.ended_at > (SELECT j.at
                                       FROM journal j
                                      WHERE j.partition_date = p.partition_date
                                        AND j.run_id = p.run_id AND j.seq = p.seq)
                 LIMIT 1) = 1
           AND (SELECT 1
                  FROM paused_runs s
                 WHERE s.run_id = ANY (ARRAY[p.run_id])
                 LIMIT 1) IS NULL),
    asleep AS MATERIALIZED (
        SELECT q.run_id
          FROM stranded s
          JOIN queue q ON q.run_id = ANY (ARRAY[s.run_id]) AND q.epoch = s.epoch
           AND num_nulls(q.holder) = 1
         ORDER BY q.run_id
           FOR UPDATE OF q SKIP LOCKED),
    awake AS (
        UPDATE queue q
           SET due_at = (SELECT moment()), stage = 'ready'
         WHERE q.run_id = ANY (ARRAY(SELECT run_id FROM asleep))
     RETURNING q.run_id)
    SELECT ARRAY(SELECT run_id FROM awake), (SELECT run_id FROM page ORDER BY run_id OFFSET 999)";

/// Looks at the runs of the queue behind one of them, as many as a page has, and makes those due
/// that are stranded. Gives these, and the run that the next page begins behind; nothing where
/// there is no next page.
pub async fn wake_stranded(
    cell: EveryCell<'_>,
    after: Option<RunId>,
) -> Result<(Vec<RunId>, Option<RunId>), ReadError> {
    let after = after.map_or_else(Uuid::nil, |run| *run.as_uuid());
    let client = cell.reader().await?;
    let row = client.query_one(WAKE_STRANDED, &[&after]).await?;
    let (awake, next): (Vec<Uuid>, Option<Uuid>) = (row.get(0), row.get(1));
    let awake = awake.into_iter().map(RunId::from_uuid).collect();
    Ok((awake, next.map(RunId::from_uuid)))
}
