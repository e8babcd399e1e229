//! The `broadcasts` table: events whose waits are answered a page at a time.
//!
//! A server that takes a broadcast has it until its lease ends, answers one page, and moves the
//! cursor. Nothing is locked in between. Two servers that answer the same page do no harm: a wait
//! is ended once, and the cursor never moves back.

use jiff::Timestamp;
use semel_model::{EffectId, Span, WaitId};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::cell::{Cell, ReadError, SlotCell};
use crate::outbox::{OutboxEvent, read_event};

/// An event that is dispatched twice is broadcast once, as long as the first broadcast lasts.
const BEGIN: &str = "
    INSERT INTO broadcasts (event_id, namespace_id, run_id, event, data, emitted_at, begun_at, due_at)
    VALUES ($1, $2, $3, $4, $5::text::json, $6, moment(), moment())
        ON CONFLICT (event_id) DO NOTHING";

const TAKE: &str = "
    WITH due AS (
        SELECT event_id
          FROM broadcasts
         WHERE due_at <= (SELECT moment())
         ORDER BY due_at
         LIMIT $1
           FOR UPDATE SKIP LOCKED)
    UPDATE broadcasts b
       SET due_at = (SELECT moment()) + make_interval(secs => $2)
     WHERE b.event_id = ANY (ARRAY(SELECT event_id FROM due))
 RETURNING b.event_id, b.namespace_id, b.run_id, b.event, b.data::text, b.emitted_at, b.begun_at,
           b.path, b.after";

/// Due at once, behind the others that are.
const ADVANCE: &str = "
    UPDATE broadcasts
       SET path = $2, after = $3, due_at = moment()
     WHERE event_id = $1 AND (path IS NULL OR (path, after) < ($2, $3))";

const END: &str = "DELETE FROM broadcasts WHERE event_id = $1";

pub(crate) const STATEMENTS: &[&str] = &[BEGIN, TAKE, ADVANCE, END];

/// An event and how far its waits are answered.
#[derive(Clone, Debug)]
pub struct Broadcast {
    /// The event.
    pub event: OutboxEvent,
    /// When it began. Waits that open later are not answered by it.
    pub begun_at: Timestamp,
    /// The last page that was answered.
    pub cursor: Option<Cursor>,
}

/// The last wait of a page, and the part of the event by which it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The part of the event.
    pub path: String,
    /// The wait.
    pub after: WaitId,
}

/// Records an event whose waits are to be answered a page at a time.
pub async fn begin(cell: SlotCell<'_>, event: &OutboxEvent) -> Result<(), ReadError> {
    let values: [&(dyn ToSql + Sync); 6] = [
        event.id.as_uuid(),
        &event.namespace_id,
        event.run.as_uuid(),
        &event.event,
        &event.data,
        &event.emitted_at,
    ];
    cell.reader().await?.execute(BEGIN, &values).await?;
    Ok(())
}

/// Takes broadcasts that are due, for as long as `lease`, the one that waited longest first.
pub async fn take(cell: &Cell, most: i64, lease: Span) -> Result<Vec<Broadcast>, ReadError> {
    let secs = lease.as_secs_f64();
    let client = cell.reader().await?;
    let rows = client.query(TAKE, &[&most, &secs]).await?;
    let read = |row: &tokio_postgres::Row| {
        let (path, after): (Option<String>, Option<Uuid>) = (row.get(7), row.get(8));
        let cursor = path.zip(after).map(|(path, after)| Cursor {
            path,
            after: WaitId::from_uuid(after),
        });
        Broadcast {
            event: read_event(row),
            begun_at: row.get(6),
            cursor,
        }
    };
    Ok(rows.iter().map(read).collect())
}

/// Notes that a page is answered.
pub async fn advance(cell: SlotCell<'_>, event: EffectId, to: &Cursor) -> Result<(), ReadError> {
    let values: [&(dyn ToSql + Sync); 3] = [event.as_uuid(), &to.path, to.after.as_uuid()];
    cell.reader().await?.execute(ADVANCE, &values).await?;
    Ok(())
}

/// Notes that the last page is answered.
pub async fn end(cell: SlotCell<'_>, event: EffectId) -> Result<(), ReadError> {
    let client = cell.reader().await?;
    client.execute(END, &[event.as_uuid()]).await?;
    Ok(())
}
