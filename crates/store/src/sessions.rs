//! The `sessions` table: which workers are alive, judged by the database's clock alone.

use std::time::Duration;

use jiff::Timestamp;
use semel_model::{SessionId, Span};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::cell::{Cell, EveryCell, ReadError};

const OPEN: &str = "/* commits alone: open session */
    INSERT INTO sessions (id, process, version, expires_at)
    VALUES ($1, $2, $4, moment() + make_interval(secs => $3))";

/// A session that has expired stays so: a paused worker cannot bring its own lease back to life.
/// Nor can one whose runs were freed, whatever the clock says now.
const RENEW: &str = "/* commits alone: renew */
    UPDATE sessions
       SET expires_at = moment() + make_interval(secs => $2)
     WHERE id = $1 AND lost_at IS NULL AND expires_at > moment()
 RETURNING moment()";

/// The others do its background duties from their next look on.
const LEAVE: &str = "/* commits alone: leave */
    UPDATE sessions SET leaving_at = moment() WHERE id = $1 AND leaving_at IS NULL";

const CLOSE: &str = "/* commits alone: close session */ DELETE FROM sessions WHERE id = $1";

const SWEEP: &str = "
    DELETE FROM sessions s
     WHERE s.expires_at < moment() - make_interval(secs => $1)
       AND NOT EXISTS (SELECT 1 FROM queue q WHERE q.holder = s.id)";

/// What a session holds is bounded by what a server can hold.
const LIST: &str = "
    SELECT s.id, s.process, s.version, s.started_at, s.expires_at,
           s.lost_at IS NULL AND s.expires_at > moment(),
           (SELECT count(*) FROM queue q WHERE q.holder = s.id)
      FROM sessions s
     ORDER BY s.started_at DESC, s.id
     LIMIT $1";

pub(crate) const STATEMENTS: &[&str] = &[OPEN, RENEW, LEAVE, CLOSE, SWEEP, LIST];

/// The version of this program, which every crate of it shares.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The most sessions that are listed.
const LISTED_MAX: i64 = 100;

/// A session as an operator sees it.
#[derive(Clone, Debug)]
pub struct SessionView {
    /// The session.
    pub id: SessionId,
    /// The host and the number of the process.
    pub process: String,
    /// The version of the program.
    pub version: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When its lease ends, unless it is renewed before.
    pub expires_at: Timestamp,
    /// Whether its lease holds.
    pub is_live: bool,
    /// How many runs it holds.
    pub held: i64,
}

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
    let secs = lease.as_secs_f64();
    let values: [&(dyn ToSql + Sync); 4] = [session.as_uuid(), &process, &secs, &VERSION];
    cell.renewal().execute(OPEN, &values, OPEN_PATIENCE).await?;
    Ok(())
}

/// Renews a session, on the connection that does nothing else; nothing when it has expired and its runs may be another's.
pub async fn renew(
    cell: &Cell,
    session: SessionId,
    lease: Span,
) -> Result<Option<Timestamp>, ReadError> {
    let secs = lease.as_secs_f64();
    let values: [&(dyn ToSql + Sync); 2] = [session.as_uuid(), &secs];
    let expired = semel_model::SeededBug::ExpiredLeaseRenewed;
    let text = expired.in_text(RENEW, "AND expires_at > moment()", "");
    let rows = cell.renewal().query(text, &values, try_for(lease)).await?;
    Ok(rows.first().map(|row| row.get(0)))
}

/// Notes that the process of a session stops, so that other servers do its background duties at once.
pub async fn leave(cell: EveryCell<'_>, session: SessionId) -> Result<(), ReadError> {
    let client = cell.reader().await?;
    client.execute(LEAVE, &[session.as_uuid()]).await?;
    Ok(())
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
    let secs = older_than.as_secs_f64();
    Ok(cell.reader().await?.execute(SWEEP, &[&secs]).await?)
}

/// Lists the sessions, the newest first.
pub async fn list(cell: EveryCell<'_>) -> Result<Vec<SessionView>, ReadError> {
    let rows = cell.reader().await?.query(LIST, &[&LISTED_MAX]).await?;
    let view = |row: &Row| SessionView {
        id: SessionId::from_uuid(row.get(0)),
        process: row.get(1),
        version: row.get(2),
        started_at: row.get(3),
        expires_at: row.get(4),
        is_live: row.get(5),
        held: row.get(6),
    };
    Ok(rows.iter().map(view).collect())
}
