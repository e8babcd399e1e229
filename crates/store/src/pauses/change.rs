//! Pausing and resuming: the commits in which the version of what is paused rises.

use semel_model::Span;
use tokio_postgres::types::ToSql;

use super::PauseSubject;
use crate::audit::{self, AuditEntry};
use crate::cell::{HomeCell, ReadError};

/// The most pauses of a namespace that begin within a minute.
pub const PAUSES_MAX: i64 = 60;

/// Before anything else, so that pauses are counted one after the other.
pub(super) const LOCK_VERSION: &str = "SELECT 1 FROM clock FOR UPDATE";

/// In how many seconds one more pause may begin, where too many did lately. Nothing of what is paused
/// already.
pub(super) const FULL_FOR: &str = "
    SELECT extract(epoch FROM p.paused_at + interval '1 minute' - moment())::float8
      FROM pauses p
     WHERE p.namespace_id = $1 AND p.paused_at > moment() - interval '1 minute'
       AND NOT EXISTS (SELECT 1 FROM pauses o
                        WHERE o.namespace_id = $1 AND o.kind = $2 AND o.name = $3 AND o.resumed_at IS NULL)
     ORDER BY p.paused_at DESC
    OFFSET $4 LIMIT 1";

pub(super) const PAUSE: &str = "
    WITH made AS (
        INSERT INTO pauses (namespace_id, kind, name, reason, actor)
        VALUES ($1, $2, $3, $4, $5)
            ON CONFLICT (namespace_id, kind, name) WHERE resumed_at IS NULL DO NOTHING
     RETURNING 1)
    UPDATE clock SET pause_version = pause_version + 1 WHERE EXISTS (SELECT 1 FROM made)";

pub(super) const RESUME: &str = "
    WITH ended AS (
        UPDATE pauses SET resumed_at = moment(), per_second = $4
         WHERE namespace_id = $1 AND kind = $2 AND name = $3 AND resumed_at IS NULL
     RETURNING 1)
    UPDATE clock SET pause_version = pause_version + 1 WHERE EXISTS (SELECT 1 FROM ended)";

/// What became of a wish to pause something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseResult {
    /// It is paused from now on.
    Paused,
    /// It was paused already.
    Known,
    /// Too many pauses of the namespace began within a minute: one more may begin after this time.
    TooMany(Span),
}

/// Pauses something; the act is recorded in the same commit.
pub async fn pause(
    cell: HomeCell<'_>,
    subject: PauseSubject<'_>,
    reason: &str,
    act: &AuditEntry,
) -> Result<PauseResult, ReadError> {
    let PauseSubject {
        namespace_id,
        kind,
        name,
    } = subject;
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    tx.execute(LOCK_VERSION, &[]).await?;
    let before = PAUSES_MAX - 1;
    let values: [&(dyn ToSql + Sync); 4] = [&namespace_id, &kind.as_str(), &name, &before];
    if let Some(row) = tx.query_opt(FULL_FOR, &values).await? {
        let secs: f64 = row.get(0);
        let millis = (secs.max(0.0) * 1e3).ceil() as u64;
        return Ok(PauseResult::TooMany(Span::from_millis(millis.max(1))));
    }
    let values: [&(dyn ToSql + Sync); 5] =
        [&namespace_id, &kind.as_str(), &name, &reason, &act.actor()];
    let changed = tx.execute(PAUSE, &values).await? == 1;
    if changed {
        audit::append(&tx, act).await?;
    }
    tx.commit().await?;
    Ok(match changed {
        true => PauseResult::Paused,
        false => PauseResult::Known,
    })
}

/// Ends a pause; the act is recorded in the same commit. False where nothing is paused.
pub async fn resume(
    cell: HomeCell<'_>,
    subject: PauseSubject<'_>,
    per_second: Option<f64>,
    act: &AuditEntry,
) -> Result<bool, ReadError> {
    let PauseSubject {
        namespace_id,
        kind,
        name,
    } = subject;
    let values: [&(dyn ToSql + Sync); 4] = [&namespace_id, &kind.as_str(), &name, &per_second];
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    tx.execute(LOCK_VERSION, &[]).await?;
    let changed = tx.execute(RESUME, &values).await? == 1;
    if changed {
        audit::append(&tx, act).await?;
    }
    tx.commit().await?;
    Ok(changed)
}
