//! The `broadcasts` table: events whose waits are answered a page at a time.
//!
//! A server that takes a broadcast has it until its lease ends, answers one page, and moves the
//! cursor. Nothing is locked in between. Two servers that answer the same page do no harm: a wait
//! is ended once, and the cursor never moves back. The namespaces take turns (`turns.rs`).
//!
//! A wait whose run cannot be read is left, and the pages go on. Once they are through, the waits that
//! were left are tried again, by whichever server takes the broadcast, until each is answered or gone.

use jiff::Timestamp;
use semel_model::{EffectId, Span, WaitId};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::cell::{Cell, ReadError, SlotCell};
use crate::outbox::{OutboxEvent, read_event};
use crate::turns::{NamespaceTurns, turns};

/// An event that is dispatched twice is broadcast once, as long as the first broadcast lasts.
const BEGIN: &str = "
    INSERT INTO broadcasts (event_id, namespace_id, run_id, event, data, emitted_at, begun_at, due_at)
    VALUES ($1, $2, $3, $4, $5::text::json, $6, CASE WHEN $7::bool THEN $6 ELSE moment() END, moment())
        ON CONFLICT (event_id) DO NOTHING";

/// A broadcast that only has waits that were left. Where the event is broadcast already, they are added to its own.
const BEGIN_LEFT: &str = "
    INSERT INTO broadcasts (event_id, namespace_id, run_id, event, data, emitted_at, begun_at, due_at,
                            pages_done, left_waits)
    VALUES ($1, $2, $3, $4, $5::text::json, $6, moment(), moment() + make_interval(secs => $8), true, $7::uuid[])
        ON CONFLICT (event_id) DO UPDATE SET left_waits = broadcasts.left_waits || excluded.left_waits";

/// Those of the namespaces that come first, where there are more of them than places.
const TAKE: &str = concat!(
    turns!("broadcasts", "TRUE"),
    ",
    due AS (
        SELECT d.place
          FROM turns s
         CROSS JOIN LATERAL (SELECT b.ctid AS place
                               FROM broadcasts b
                              WHERE b.namespace_id = s.namespace_id
                                AND b.due_at <= (SELECT now FROM present)
                              ORDER BY b.due_at
                              LIMIT ceil($3::int8::float8 / s.namespace_count)::int8
                                FOR UPDATE OF b SKIP LOCKED) d
         LIMIT $3::int8)
    UPDATE broadcasts b
       SET due_at = (SELECT moment()) + make_interval(secs => $4)
     WHERE b.ctid = ANY (ARRAY(SELECT place FROM due))
 RETURNING b.event_id, b.namespace_id, b.run_id, b.event, b.data::text, b.emitted_at, b.begun_at,
           b.path, b.after, b.pages_done, b.left_waits"
);

/// Due at once, behind the others that are.
const ADVANCE: &str = "
    UPDATE broadcasts
       SET path = $2, after = $3, due_at = moment(), left_waits = left_waits || $4::uuid[]
     WHERE event_id = $1 AND (path IS NULL OR (path, after) < ($2, $3))";

const END: &str = "DELETE FROM broadcasts WHERE event_id = $1 AND cardinality(left_waits) = 0";

const FINISH_PAGES: &str = "
    UPDATE broadcasts SET pages_done = true, due_at = moment() + make_interval(secs => $2) WHERE event_id = $1";

/// What is still left goes behind what was not tried this time.
const RETRY: &str = "
    UPDATE broadcasts
       SET left_waits = ARRAY(SELECT t.id FROM unnest(left_waits) WITH ORDINALITY AS t (id, place)
                               WHERE t.id <> ALL ($2::uuid[]) ORDER BY t.place)
                    || $3::uuid[],
           due_at = moment() + make_interval(secs => $4)
     WHERE event_id = $1";

pub(crate) const STATEMENTS: &[&str] =
    &[BEGIN, BEGIN_LEFT, TAKE, ADVANCE, END, FINISH_PAGES, RETRY];

/// An event and how far its waits are answered.
#[derive(Clone, Debug)]
pub struct Broadcast {
    /// The event.
    pub event: OutboxEvent,
    /// When it began. Waits that open later are not answered by it.
    pub begun_at: Timestamp,
    /// The last page that was answered.
    pub cursor: Option<Cursor>,
    /// Whether all pages are through: then only the waits that were left are tried.
    pub pages_done: bool,
    /// Waits whose runs could not be read; first those that were not tried for longest.
    pub left: Vec<WaitId>,
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
pub async fn begin(
    cell: SlotCell<'_>,
    event: &OutboxEvent,
    is_repeat: bool,
) -> Result<(), ReadError> {
    let values: [&(dyn ToSql + Sync); 7] = [
        event.id.as_uuid(),
        &event.namespace_id,
        event.run.as_uuid(),
        &event.event,
        &event.data,
        &event.emitted_at,
        &is_repeat,
    ];
    cell.reader().await?.execute(BEGIN, &values).await?;
    Ok(())
}

/// Records an event of which only waits are left whose runs could not be read. They are tried again after a pause.
pub async fn begin_left(
    cell: SlotCell<'_>,
    event: &OutboxEvent,
    left: &[WaitId],
    pause: Span,
) -> Result<(), ReadError> {
    let (left, secs) = (ids_of(left), pause.as_secs_f64());
    let values: [&(dyn ToSql + Sync); 8] = [
        event.id.as_uuid(),
        &event.namespace_id,
        event.run.as_uuid(),
        &event.event,
        &event.data,
        &event.emitted_at,
        &left,
        &secs,
    ];
    cell.reader().await?.execute(BEGIN_LEFT, &values).await?;
    Ok(())
}

/// Takes broadcasts that are due, for as long as `lease`: of the namespaces in turn, and of each the one that waited
/// longest first.
pub async fn take(
    cell: &Cell,
    turns: &mut NamespaceTurns,
    most: i64,
    lease: Span,
) -> Result<Vec<Broadcast>, ReadError> {
    let (last, none, secs) = (turns.last(), Vec::<i32>::new(), lease.as_secs_f64());
    let values: [&(dyn ToSql + Sync); 4] = [&last, &none, &most, &secs];
    let rows = cell.reader().await?.query(TAKE, &values).await?;
    let read = |row: &tokio_postgres::Row| {
        let (path, after): (Option<String>, Option<Uuid>) = (row.get(7), row.get(8));
        let left: Vec<Uuid> = row.get(10);
        let cursor = path.zip(after).map(|(path, after)| Cursor {
            path,
            after: WaitId::from_uuid(after),
        });
        Broadcast {
            event: read_event(row),
            begun_at: row.get(6),
            cursor,
            pages_done: row.get(9),
            left: left.into_iter().map(WaitId::from_uuid).collect(),
        }
    };
    let taken: Vec<Broadcast> = rows.iter().map(read).collect();
    turns.note(taken.iter().map(|it| it.event.namespace_id));
    Ok(taken)
}

/// Notes that a page is answered, but for waits whose runs could not be read.
pub async fn advance(
    cell: SlotCell<'_>,
    event: EffectId,
    to: &Cursor,
    left: &[WaitId],
) -> Result<(), ReadError> {
    let left = ids_of(left);
    let values: [&(dyn ToSql + Sync); 4] = [event.as_uuid(), &to.path, to.after.as_uuid(), &left];
    cell.reader().await?.execute(ADVANCE, &values).await?;
    Ok(())
}

/// Notes that the last page is answered. The broadcast ends, unless waits were left: those are tried after a pause.
pub async fn finish_pages(
    cell: SlotCell<'_>,
    event: EffectId,
    pause: Span,
) -> Result<(), ReadError> {
    let client = cell.reader().await?;
    let id = event.as_uuid();
    if client.execute(END, &[id]).await? == 0 {
        let secs = pause.as_secs_f64();
        client.execute(FINISH_PAGES, &[id, &secs]).await?;
    }
    Ok(())
}

/// Notes which of the waits that were left have been tried, and which of those stay. The broadcast ends with the last.
pub async fn retry(
    cell: SlotCell<'_>,
    event: EffectId,
    tried: &[WaitId],
    still: &[WaitId],
    pause: Span,
) -> Result<(), ReadError> {
    let (tried, still, secs) = (ids_of(tried), ids_of(still), pause.as_secs_f64());
    let client = cell.reader().await?;
    let values: [&(dyn ToSql + Sync); 4] = [event.as_uuid(), &tried, &still, &secs];
    client.execute(RETRY, &values).await?;
    client.execute(END, &[event.as_uuid()]).await?;
    Ok(())
}

fn ids_of(waits: &[WaitId]) -> Vec<Uuid> {
    waits.iter().map(|wait| *wait.as_uuid()).collect()
}
