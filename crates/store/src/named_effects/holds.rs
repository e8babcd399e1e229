//! Holds that a worker began for a run which had ended meanwhile.
//!
//! A worker that is paused before it begins a named effect may do so after another worker has ended
//! the run. No notice will come for such a hold, and nothing was sent under it: its intent would
//! have been refused, and an intent that is written commits its notice with what it came to. Where the
//! effect was in doubt before, it is in doubt again. The same worker may begin to undo an effect: then
//! the effect stands.

use jiff::Timestamp;
use semel_model::{NamedEffectId, RunId};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::report::NamedReport;
use super::reports::freed;
use super::upkeep::{ABSENT_SECS, remembered};
use super::waiters::{self, Waking};
use crate::cell::{EveryCell, ReadError, SlotCell};

const LIST: &str = "
    SELECT id, token, CASE WHEN state = 'undoing' THEN undo_run ELSE holder_run END, heartbeat_at
      FROM named_effects
     WHERE state IN ('pending', 'undoing') AND holder_run IS NOT NULL
       AND heartbeat_at < (SELECT moment()) - interval '1 minute' AND (heartbeat_at, id) > ($1, $2)
     ORDER BY heartbeat_at, id
     LIMIT $3";

/// A run that was resumed has begun again since.
const FREE: &str = freed!("$4", "n.id = $1 AND n.token = $2 AND n.heartbeat_at = $3");

/// An undo that a late worker began for a run which had ended: nothing was sent, and the effect stands.
const KEEP: &str = "
    UPDATE named_effects n
       SET state = 'done', undo_seq = NULL, settled_at = p.now,
           expires_at = p.now + make_interval(secs => n.keep_ms / 1e3)
      FROM (SELECT moment() AS now) p
     WHERE n.id = $1 AND n.token = $2 AND n.heartbeat_at = $3 AND n.state = 'undoing'";

pub(crate) const STATEMENTS: &[&str] = &[LIST, FREE, KEEP];

/// The most holds of one page.
pub const HOLDS_MAX: usize = 256;

/// A hold of a run that was not heard of for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldHold {
    /// The named effect.
    pub name: NamedEffectId,
    /// The run that holds it, or undoes it.
    pub run: RunId,
    /// When it last began it.
    pub since: Timestamp,
    token: i64,
}

/// Lists holds of runs that are older than a minute, from where the page before ended.
pub async fn list_old_holds(
    cell: EveryCell<'_>,
    after: Option<OldHold>,
) -> Result<Vec<OldHold>, ReadError> {
    let (since, id) = match after {
        Some(hold) => (hold.since, *hold.name.as_uuid()),
        None => (Timestamp::UNIX_EPOCH, Uuid::nil()),
    };
    let limit = i64::try_from(HOLDS_MAX).unwrap_or(i64::MAX);
    let client = cell.reader().await?;
    let rows = client.query(LIST, &[&since, &id, &limit]).await?;
    let read = |row: &Row| OldHold {
        name: NamedEffectId::from_uuid(row.get(0)),
        token: row.get(1),
        run: RunId::from_uuid(row.get(2)),
        since: row.get(3),
    };
    Ok(rows.iter().map(read).collect())
}

/// Frees a name whose holder has ended and has nothing to say about it.
pub async fn free_old_hold(cell: SlotCell<'_>, hold: &OldHold) -> Result<NamedReport, ReadError> {
    let values: [&(dyn ToSql + Sync); 4] =
        [hold.name.as_uuid(), &hold.token, &hold.since, &ABSENT_SECS];
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    let freed = tx.execute(FREE, &values).await? > 0;
    let report = if freed {
        NamedReport::Recorded(waiters::of_effect(&tx, hold.name, Waking::Few).await?)
    } else if tx.execute(KEEP, &values[..3]).await? > 0 {
        NamedReport::Recorded(waiters::of_effect(&tx, hold.name, Waking::All).await?)
    } else {
        NamedReport::Unknown
    };
    tx.commit().await?;
    Ok(report)
}
