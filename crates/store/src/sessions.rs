//! The `sessions` table: which workers are alive, judged by the database's clock alone.

use std::time::Duration;

use jiff::Timestamp;
use semel_model::{SessionId, Span};
use tokio_postgres::types::ToSql;

use crate::cell::{Cell, ReadError};

const OPEN: &str = "/* commits alone: open session */
    INSERT INTO sessions (id, process, expires_at)
    VALUES ($1, $2, moment() + make_interval(secs => $3))";

/// A session that has expired stays so: a paused worker cannot bring its own lease back to life.
/// Nor can one whose runs were freed, whatever the clock says now.
const RENEW: &str = "/* commits alone: renew */
    UPDATE sessions
       SET expires_at = moment() + make_interval(secs => $2)
     WHERE id = $1 AND lost_at IS NULL AND expires_at > moment()
 RETURNING moment()";

const CLOSE: &str = "/* commits alone: close session */ DELETE FROM sessions WHERE id = $1";

const SWEEP: &str = "
    DELETE FROM sessions s
     WHERE s.expires_at < moment() - make_interval(secs => $1)
       AND NOT EXISTS (SELECT 1 FROM queue q WHERE q.holder = s.id)";

pub(crate) const STATEMENTS: &[&str] = &[OPEN, RENEW, CLOSE, SWEEP];

/// How long a try to begin a session may take.
const OPEN_PATIENCE: Duration = Duration::from_secs(5);

/// The least that a try to renew may take: a new connection has to fit in.
const RENEW_PATIENCE_MIN: Duration = Duration::from_millis(500);

/// How long one try to renew may take. Renewal begins when a third of the lease is over, and the
/// process stops sending after two: two tries fit in between.
fn try_for(lease: Span) -> Duration {
    (lease.to_duration() / 6).max(RENEW_PATIENCE_MIN)
}

/// Begins a session.
pub async fn open(
    cell: &Cell,
    session: SessionId,
    process: &str,
    lease: Span,
) -> Result<(), ReadError> {
    let secs = lease.as_millis() as f64 / 1e3;
    let values: [&(dyn ToSql + Sync); 3] = [session.as_uuid(), &process, &secs];
    cell.renewal().execute(OPEN, &values, OPEN_PATIENCE).await?;
    Ok(())
}

/// Renews a session, on the connection that does nothing else; nothing when it has expired and its runs may be another's.
pub async fn renew(
    cell: &Cell,
    session: SessionId,
    lease: Span,
) -> Result<Option<Timestamp>, ReadError> {
    let secs = lease.as_millis() as f64 / 1e3;
    let values: [&(dyn ToSql + Sync); 2] = [session.as_uuid(), &secs];
    let expired = semel_model::SeededBug::ExpiredLeaseRenewed;
    let text = expired.in_text(RENEW, "AND expires_at > moment()", "");
    let rows = cell.renewal().query(text, &values, try_for(lease)).await?;
    Ok(rows.first().map(|row| row.get(0)))
}

/// Ends a session whose runs have been returned.
pub async fn close(cell: &Cell, session: SessionId) -> Result<(), ReadError> {
    cell.reader()
        .await?
        .execute(CLOSE, &[session.as_uuid()])
        .await?;
    Ok(())
}

/// Removes sessions that expired long ago and hold nothing.
pub async fn sweep(cell: &Cell, older_than: Span) -> Result<u64, ReadError> {
    let secs = older_than.as_millis() as f64 / 1e3;
    Ok(cell.reader().await?.execute(SWEEP, &[&secs]).await?)
}
