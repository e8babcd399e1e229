//! Runs that a lost process holds.
//!
//! A session that is known dead is lost before its lease ends, and its runs are due at once. A run that crashes its
//! server would then be taken as fast as the server starts again, and each take counts against it. So a run that made no
//! progress in two takes gains nothing by that: its third take comes when it would have come if leases alone decided,
//! and so does each further one.

use std::time::Duration;

use crate::cell::{Cell, ReadError};

/// The session is locked before it is judged and marked lost in the same commit: a renewal that
/// committed first is seen, one that comes later finds the mark and is refused. So no session keeps
/// its right to send after its runs were freed, not even where the clock goes back.
///
/// Where the lease has ended, `expires_at` is past, and `greatest` leaves out what is null. At the third take the time
/// that the first two have saved is given back.
pub(super) const RECOVER: &str = "/* commits alone: recover */
    WITH dead AS MATERIALIZED (
        SELECT s.id, s.expires_at, s.lost_at
          FROM sessions s
         WHERE (s.lost_at IS NULL AND s.expires_at <= (SELECT moment()))
            OR (s.lost_at IS NOT NULL
                AND EXISTS (SELECT 1 FROM queue q WHERE q.holder = s.id))
           FOR UPDATE OF s SKIP LOCKED),
    marked AS (
        UPDATE sessions s
           SET lost_at = (SELECT moment())
          FROM dead
         WHERE s.id = dead.id AND s.lost_at IS NULL),
    lost AS (
        SELECT q.run_id,
               CASE WHEN q.stalled_takes = 2 THEN dead.expires_at + (dead.expires_at - dead.lost_at)
                    WHEN q.stalled_takes > 2 THEN dead.expires_at END AS rests_until
          FROM dead
          JOIN queue q ON q.holder = dead.id
         LIMIT $1
           FOR UPDATE OF q SKIP LOCKED)
    UPDATE queue q
       SET holder = NULL, due_at = greatest((SELECT moment()), lost.rests_until), stage = 'ready'
      FROM lost
     WHERE q.run_id = lost.run_id";

/// A write that was in flight when its session was closed or swept may have committed after that.
pub(super) const RECOVER_STRAYS: &str = "/* commits alone: recover strays */
    WITH strays AS MATERIALIZED (
        SELECT q.run_id
          FROM queue q
         WHERE q.holder IS NOT NULL
           AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = q.holder)
         ORDER BY q.run_id
           FOR UPDATE OF q SKIP LOCKED)
    UPDATE queue q
       SET holder = NULL, due_at = (SELECT moment()), stage = 'ready'
     WHERE q.run_id = ANY (ARRAY(SELECT run_id FROM strays))";

/// The most runs that one pass takes back from lost sessions.
pub const RECOVER_MAX: i64 = 1000;

/// How long a pass may take.
const RECOVER_PATIENCE: Duration = Duration::from_secs(5);

/// Frees runs whose session has expired or was ended; they are due at once, or as the module says.
pub async fn recover(cell: &Cell) -> Result<u64, ReadError> {
    let lane = cell.recovery();
    lane.execute(RECOVER, &[&RECOVER_MAX], RECOVER_PATIENCE)
        .await
}

/// Frees runs whose session does not exist any more.
pub async fn recover_strays(cell: &Cell) -> Result<u64, ReadError> {
    let lane = cell.recovery();
    lane.execute(RECOVER_STRAYS, &[], RECOVER_PATIENCE).await
}
