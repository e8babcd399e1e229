//! Bursts of duplicates: many of one flow within a minute.
//!
//! The rows of `duplicates` say how many came in the latest minute and in the one before it, so a
//! burst is found afterwards, and recording a duplicate costs nothing more. A minute is looked at
//! once it has been over for a few seconds, and counts once, whichever server finds it.

use super::groups::GATHER_SECS;
use crate::cell::{HomeCell, ReadError};

const COUNT: &str = "/* commits alone: alert bursts */
    WITH past AS MATERIALIZED (
        SELECT date_trunc('minute', moment() - interval '5 seconds') - interval '1 minute' AS minute),
    lately AS (
        SELECT s.namespace_id, d.run_id, d.count
          FROM alert_settings s
         CROSS JOIN past p
         CROSS JOIN LATERAL (
               SELECT k.run_id,
                      CASE WHEN k.minute = p.minute THEN k.minute_count ELSE k.minute_before END AS count
                 FROM duplicates k
                WHERE k.namespace_id = s.namespace_id AND k.verdict = 'repeat'
                  AND k.minute IN (p.minute, p.minute + interval '1 minute')
                LIMIT $1) AS d
         WHERE d.count > 0),
    bursts AS (
        SELECT l.namespace_id, f.name AS flow, sum(l.count)::int8 AS count,
               (array_agg(l.run_id))[1] AS example
          FROM lately l
          JOIN runs r ON r.id = l.run_id
          JOIN releases e ON e.id = r.release_id
          JOIN flows f ON f.id = e.flow_id
         GROUP BY l.namespace_id, f.name
        HAVING sum(l.count) >= $2::int8)
    INSERT INTO alert_groups AS g (namespace_id, kind, flow, connection, step, total, waiting,
                                   waiting_since, example, due_at, burst_at, last_at)
    SELECT b.namespace_id, 'duplicates'::alert_kind, b.flow, '', '', b.count, b.count, p.minute, b.example,
           moment() + make_interval(secs => $3), p.minute, p.minute
      FROM bursts b
     CROSS JOIN past p
     ORDER BY b.namespace_id, b.flow
        ON CONFLICT (namespace_id, kind, flow, connection, step) DO UPDATE
       SET total = g.total + EXCLUDED.total, waiting = g.waiting + EXCLUDED.waiting,
           waiting_since = least(g.waiting_since, EXCLUDED.waiting_since), example = EXCLUDED.example,
           due_at = coalesce(g.due_at, greatest(EXCLUDED.due_at, g.quiet_until)),
           burst_at = EXCLUDED.burst_at, last_at = greatest(g.last_at, EXCLUDED.last_at)
     WHERE g.burst_at < EXCLUDED.burst_at";

pub(super) const STATEMENTS: &[&str] = &[COUNT];

/// How many duplicates of one flow in a minute are a burst.
const BURST_MIN: i64 = 100;

/// How many rows of a namespace are looked at; a burst of more is counted as far as these.
const ROWS_MAX: i64 = 5_000;

/// Counts the bursts of the latest minute that is over, each once.
pub async fn count_bursts(cell: HomeCell<'_>) -> Result<u64, ReadError> {
    let client = cell.reader().await?;
    let found = client
        .execute(COUNT, &[&ROWS_MAX, &BURST_MIN, &GATHER_SECS])
        .await?;
    Ok(found)
}
