//! The `sessions` table: which workers are alive, judged by the database's clock alone.
//!
//! One fact besides the clock ends a session: its process held a lock that the system frees when the process dies, and
//! another process has that lock now ([`end_dead`]). The row says which lock it was.

use std::time::Duration;

use jiff::Timestamp;
use semel_model::{SessionId, Span};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::cell::{Cell, EveryCell, ReadError};

const OPEN: &str = "/* commits alone: open session */
    INSERT INTO sessions (id, process, version, expires_at, boot_id, lock_device, lock_inode)
    VALUES ($1, $2, $4, moment() + make_interval(secs => $3), $5, $6, $7)";

/// Of a process that got its lock after the session had begun.
const NOTE_LOCK: &str = "/* commits alone: note lock */
    UPDATE sessions SET boot_id = $2, lock_device = $3, lock_inode = $4
     WHERE id = $1 AND lost_at IS NULL";

/// A renewal that commits first changes nothing about it, and one that comes later is refused. Recovery frees what the
/// sessions hold.
const END_DEAD: &str = "/* commits alone: end dead sessions */
    WITH dead AS MATERIALIZED (
        SELECT s.id
          FROM sessions s
         WHERE s.id = ANY ($1) AND s.lost_at IS NULL
           AND s.boot_id = $2 AND s.lock_device = $3 AND s.lock_inode = $4
         ORDER BY s.id
           FOR UPDATE OF s)
    UPDATE sessions s
       SET lost_at = moment()
     WHERE s.id = ANY (ARRAY(SELECT id FROM dead))";

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

pub(crate) const STATEMENTS: &[&str] =
    &[OPEN, NOTE_LOCK, RENEW, LEAVE, CLOSE, END_DEAD, SWEEP, LIST];

/// The version of this program, which every crate of it shares.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The most sessions that are listed.
const LISTED_MAX: i64 = 100;

/// The file whose lock a process holds until it dies, in a form that no other file on any machine shares while it is
/// open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockPlace {
    /// The boot of the machine.
    pub boot: Uuid,
    /// The device that the file is on, bit by bit as the system numbers it.
    pub device: i64,
    /// The number of the file on its device, bit by bit.
    pub inode: i64,
}

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

/// How long a try to end the sessions of dead processes may take.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// The least that a try to renew may take: a new connection has to fit in.
const RENEW_PATIENCE_MIN: Duration = Duration::from_millis(500);

/// How long one try to renew may take. Renewal begins when a third of the lease is over, and the
/// process stops sending after two: two tries fit in between.
fn try_for(lease: Span) -> Duration {
    (lease.to_duration() / 6).max(RENEW_PATIENCE_MIN)
}

/// Begins a session that only its lease ends.
pub async fn open(
    cell: &Cell,
    session: SessionId,
    process: &str,
    lease: Span,
) -> Result<(), ReadError> {
    open_with_lock(cell, session, process, lease, None).await
}

/// Begins a session of a process that holds a lock and has named the session in its file; nothing where it holds none.
pub async fn open_with_lock(
    cell: &Cell,
    session: SessionId,
    process: &str,
    lease: Span,
    lock: Option<LockPlace>,
) -> Result<(), ReadError> {
    let secs = lease.as_secs_f64();
    let boot = lock.map(|lock| lock.boot);
    let device = lock.map(|lock| lock.device);
    let inode = lock.map(|lock| lock.inode);
    let values: [&(dyn ToSql + Sync); 7] = [
        session.as_uuid(),
        &process,
        &secs,
        &VERSION,
        &boot,
        &device,
        &inode,
    ];
    cell.renewal().execute(OPEN, &values, OPEN_PATIENCE).await?;
    Ok(())
}

/// Notes the lock of a process that got it after the session had begun. Its file names the session already.
pub async fn note_lock(cell: &Cell, session: SessionId, lock: LockPlace) -> Result<(), ReadError> {
    let LockPlace {
        boot,
        device,
        inode,
    } = lock;
    let values: [&(dyn ToSql + Sync); 4] = [session.as_uuid(), &boot, &device, &inode];
    let lane = cell.renewal();
    lane.execute(NOTE_LOCK, &values, OPEN_PATIENCE).await?;
    Ok(())
}

/// Ends sessions whose processes are dead: each was named in the file of a lock that the caller holds now. Those that
/// were not opened under this very lock go on. Gives how many it ended.
pub async fn end_dead(cell: &Cell, named: &[SessionId], lock: LockPlace) -> Result<u64, ReadError> {
    let named: Vec<Uuid> = named.iter().map(|id| *id.as_uuid()).collect();
    let LockPlace {
        boot,
        device,
        inode,
    } = lock;
    let values: [&(dyn ToSql + Sync); 4] = [&named, &boot, &device, &inode];
    let lane = cell.recovery();
    lane.execute(END_DEAD, &values, END_PATIENCE).await
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
