//! Taking events under a lease, and settling them.
//!
//! A lease is a session in `holder` and an instant in `due_at`. Every settle names the session: where another has the
//! event by then, nothing is changed.
//!
//! Namespaces that have due events take turns, as they do in the queue (`queue/fair.rs`), with equal shares. Messages
//! between runs come before events, and leave places to them.

use std::collections::HashMap;

use semel_model::{EffectId, RunId, SeededBug, SessionId, Span};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::receivers::{self, EventReceiver};
use super::{OutboxEvent, read_event};
use crate::alerts::raise;
use crate::cell::{Cell, EveryCell, ReadError, SlotCell};
use crate::queue::last_served;

/// What the name of a message between runs begins with. The indexes of the table and the statements say it too.
const CALL: &str = "semel.call.";

/// The most events of one take.
const TAKE_MAX: i64 = 100;

/// The most of them that are messages between runs.
const CALLS_MAX: i64 = 64;

/// Takes due events of a kind: `$2` at most, the namespaces behind `$3` first. The count of tries has a limit, because
/// its column has one.
macro_rules! take {
    ($name:literal, $kind:literal) => {
        concat!(
            "/* commits alone: ",
            $name,
            " */
    WITH RECURSIVE firsts AS (
        (SELECT o.namespace_id, o.due_at
           FROM outbox o
          WHERE ",
            $kind,
            " AND o.namespace_id >= 0
          ORDER BY o.namespace_id, o.due_at
          LIMIT 1)
         UNION ALL
        SELECT n.namespace_id, n.due_at
          FROM firsts f
         CROSS JOIN LATERAL (SELECT o.namespace_id, o.due_at
                               FROM outbox o
                              WHERE ",
            $kind,
            " AND o.namespace_id > f.namespace_id
                              ORDER BY o.namespace_id, o.due_at
                              LIMIT 1) n),
    present AS MATERIALIZED (SELECT moment() AS now),
    open AS MATERIALIZED (
        SELECT f.namespace_id
          FROM firsts f
         WHERE f.due_at <= (SELECT now FROM present)
           AND EXISTS (SELECT 1 FROM sessions
                        WHERE id = $1 AND lost_at IS NULL AND expires_at > (SELECT now FROM present))),
    shares AS MATERIALIZED (
        SELECT namespace_id, ceil($2::int8::float8 / count(*) OVER ())::int8 AS share
          FROM open
         ORDER BY namespace_id <= $3::int4, namespace_id),
    due AS (
        SELECT t.place
          FROM shares s
         CROSS JOIN LATERAL (SELECT o.ctid AS place
                               FROM outbox o
                              WHERE ",
            $kind,
            " AND o.namespace_id = s.namespace_id
                                AND o.due_at <= (SELECT now FROM present)
                              ORDER BY o.due_at
                              LIMIT s.share
                                FOR UPDATE OF o SKIP LOCKED) t
         LIMIT $2::int8)
    UPDATE outbox o
       SET holder = $1, due_at = moment() + make_interval(secs => $4),
           tries = least(o.tries, 1000000) + 1
     WHERE o.ctid = ANY (ARRAY(SELECT place FROM due))
 RETURNING o.id, o.namespace_id, o.run_id, o.event, o.data::text, o.emitted_at, o.tries, o.is_answered"
        )
    };
}

const TAKE_CALLS: &str = take!("outbox calls", "starts_with(o.event, 'semel.call.')");
const TAKE_EVENTS: &str = take!("outbox events", "NOT starts_with(o.event, 'semel.call.')");

/// Of what was never handed over the try is not counted, and its place is the one that it had.
const GIVE_BACK: &str = "/* commits alone: outbox give back */
    UPDATE outbox
       SET holder = NULL, due_at = CASE WHEN tries = 1 THEN emitted_at ELSE moment() END,
           tries = greatest(tries - 1, 0)
     WHERE id = ANY ($1) AND holder IS NOT DISTINCT FROM $2";

const RENEW: &str = "/* commits alone: outbox renew */
    UPDATE outbox SET due_at = moment() + make_interval(secs => $3)
     WHERE id = ANY ($1) AND holder IS NOT DISTINCT FROM $2";

const SETTLE: &str = "/* commits alone: outbox settle */
    DELETE FROM outbox WHERE id = ANY ($1) AND holder IS NOT DISTINCT FROM $2";

const DEFER: &str = "/* commits alone: outbox defer */
    UPDATE outbox
       SET holder = NULL, due_at = moment() + make_interval(secs => $3),
           unread = CASE WHEN $4 THEN 'newer' END, is_answered = is_answered OR $5
     WHERE id = $1 AND holder IS NOT DISTINCT FROM $2";

/// The alert is raised once, however often the event is tried.
const KEEP: &str = concat!(
    "/* commits alone: outbox keep */
    WITH kept AS (
        UPDATE outbox o
           SET holder = NULL, due_at = moment() + make_interval(secs => $3), unread = 'damaged',
               is_answered = o.is_answered OR $4
          FROM (SELECT id, unread FROM outbox WHERE id = $1 FOR UPDATE) AS b
         WHERE o.id = b.id AND o.holder IS NOT DISTINCT FROM $2
     RETURNING o.namespace_id, o.run_id, b.unread IS DISTINCT FROM 'damaged' AS is_new),
    raised AS (
        ",
    raise!(
        "SELECT k.namespace_id, 'event_unreadable' AS kind, coalesce(f.name, '') AS flow,
                '' AS connection, '' AS step, k.run_id, 1 AS count
           FROM kept k
           LEFT JOIN runs r ON r.id = k.run_id
           LEFT JOIN releases e ON e.id = r.release_id
           LEFT JOIN flows f ON f.id = e.flow_id
          WHERE k.is_new"
    ),
    ")
    SELECT count(*) FROM kept WHERE is_new"
);

const FREE_OWN: &str = "/* commits alone: outbox free own */
    UPDATE outbox SET holder = NULL, due_at = moment() WHERE holder = $1";

const FREE_LOST: &str = "/* commits alone: outbox free lost */
    UPDATE outbox o
       SET holder = NULL, due_at = moment()
     WHERE o.holder IS NOT NULL
       AND NOT EXISTS (SELECT 1 FROM sessions s
                        WHERE s.id = o.holder AND s.lost_at IS NULL AND s.expires_at > (SELECT moment()))";

/// In words that fit no index but that of the events.
const LEASED_OF_RANGE: &str =
    "SELECT id FROM outbox WHERE id BETWEEN $1 AND $2 AND num_nulls(holder) = 0";

const LEASED: &str = "SELECT id FROM outbox WHERE id = ANY ($1) AND num_nulls(holder) = 0";

pub(super) const STATEMENTS: &[&str] = &[
    TAKE_CALLS,
    TAKE_EVENTS,
    GIVE_BACK,
    RENEW,
    SETTLE,
    DEFER,
    KEEP,
    FREE_OWN,
    FREE_LOST,
    LEASED_OF_RANGE,
    LEASED,
];

/// An event that a server has a lease on.
#[derive(Clone, Debug)]
pub struct TakenEvent {
    /// The event.
    pub event: OutboxEvent,
    /// How often it was taken, this time included.
    pub tries: u32,
    /// Whether the waits and the subscriptions have it.
    pub is_answered: bool,
    /// The flows that were asked before.
    pub receivers: Vec<EventReceiver>,
}

/// Takes events of a database, the namespaces in turns.
#[derive(Debug, Default)]
pub struct OutboxTaker {
    /// The namespaces that were served last: with messages between runs, and with events.
    last_calls: i32,
    last_events: i32,
}

impl OutboxTaker {
    /// Takes events that are due, for as long as `lease`: messages between runs, then others. Within each, the oldest of
    /// every namespace come first, then the next of each: whoever hands over some of them has served the namespaces alike.
    pub async fn take(
        &self,
        cell: &Cell,
        session: SessionId,
        lease: Span,
    ) -> Result<Vec<TakenEvent>, ReadError> {
        let client = cell.reader().await?;
        let secs = lease.as_secs_f64();
        let mut taken = Vec::new();
        for (text, most, last) in [
            (TAKE_CALLS, CALLS_MAX, self.last_calls),
            (TAKE_EVENTS, TAKE_MAX, self.last_events),
        ] {
            let room = most - i64::try_from(taken.len()).unwrap_or(most);
            let values: [&(dyn ToSql + Sync); 4] = [session.as_uuid(), &room, &last, &secs];
            let rows = client.query(text, &values).await?;
            taken.extend(in_turns(rows.iter().map(read_taken).collect(), last));
        }
        let again = taken.iter().filter(|it| it.tries > 1);
        let again: Vec<Uuid> = again.map(|it| *it.event.id.as_uuid()).collect();
        if !again.is_empty() {
            let mut known = receivers::list(&client, &again).await?;
            for one in &mut taken {
                one.receivers = known.remove(&one.event.id).unwrap_or_default();
            }
        }
        Ok(taken)
    }

    /// Notes which events were handed over: the next take begins behind their namespaces.
    pub fn note_served(&mut self, handed: &[TakenEvent]) {
        let of_kind = |is_call| {
            let events = handed.iter().map(|it| &it.event);
            let events = events.filter(move |it| it.event.starts_with(CALL) == is_call);
            events.map(|it| it.namespace_id)
        };
        self.last_calls = last_served(self.last_calls, of_kind(true));
        self.last_events = last_served(self.last_events, of_kind(false));
    }
}

/// The first of each namespace, beginning behind the last one that was served, then the second of each, and so on.
fn in_turns(mut events: Vec<TakenEvent>, last: i32) -> Vec<TakenEvent> {
    events.sort_by_key(|it| (it.event.emitted_at, *it.event.id.as_uuid()));
    let mut turns: HashMap<i32, usize> = HashMap::new();
    let turn_of = |it: TakenEvent| {
        let turn = turns.entry(it.event.namespace_id).or_default();
        *turn += 1;
        (*turn, it)
    };
    let mut events: Vec<(usize, TakenEvent)> = events.into_iter().map(turn_of).collect();
    events.sort_by_key(|(turn, it)| {
        let namespace_id = it.event.namespace_id;
        (*turn, namespace_id <= last, namespace_id)
    });
    events.into_iter().map(|(_, it)| it).collect()
}

/// Gives events back that were taken and not handed over.
pub async fn give_back(
    cell: EveryCell<'_>,
    session: SessionId,
    events: &[EffectId],
) -> Result<(), ReadError> {
    let ids = ids_of(events);
    let values: [&(dyn ToSql + Sync); 2] = [&ids, session.as_uuid()];
    cell.reader().await?.execute(GIVE_BACK, &values).await?;
    Ok(())
}

/// Extends the leases of events that are still handed over.
pub async fn renew(
    cell: EveryCell<'_>,
    session: SessionId,
    events: &[EffectId],
    lease: Span,
) -> Result<(), ReadError> {
    let (ids, secs) = (ids_of(events), lease.as_secs_f64());
    let values: [&(dyn ToSql + Sync); 3] = [&ids, session.as_uuid(), &secs];
    cell.reader().await?.execute(RENEW, &values).await?;
    Ok(())
}

/// Removes events whose receivers all have them. Gives how many it were.
pub async fn settle(
    cell: EveryCell<'_>,
    session: SessionId,
    events: &[EffectId],
) -> Result<u64, ReadError> {
    let ids = ids_of(events);
    let values: [&(dyn ToSql + Sync); 2] = [&ids, session.as_uuid()];
    let (right, wrong) = ("holder IS NOT DISTINCT FROM $2", "$2::uuid IS NOT NULL");
    let text = SeededBug::EventLeaseNotCompared.in_text(SETTLE, right, wrong);
    Ok(cell.reader().await?.execute(text, &values).await?)
}

/// What of an event is not through.
#[derive(Clone, Copy, Debug)]
pub struct OutboxRest {
    /// How long it is left alone.
    pub pause: Span,
    /// Whether the waits and the subscriptions have it.
    pub is_answered: bool,
}

/// Returns an event that some receiver could not take now; `is_newer` where this version cannot read all that it needs.
pub async fn defer(
    cell: SlotCell<'_>,
    session: SessionId,
    event: EffectId,
    rest: OutboxRest,
    is_newer: bool,
) -> Result<(), ReadError> {
    let secs = rest.pause.as_secs_f64();
    let values: [&(dyn ToSql + Sync); 5] = [
        event.as_uuid(),
        session.as_uuid(),
        &secs,
        &is_newer,
        &rest.is_answered,
    ];
    cell.reader().await?.execute(DEFER, &values).await?;
    Ok(())
}

/// Keeps an event of which something can be read by no version, and raises an alert. False where it was known before, or
/// another server has it.
pub async fn keep(
    cell: SlotCell<'_>,
    session: SessionId,
    event: EffectId,
    rest: OutboxRest,
) -> Result<bool, ReadError> {
    let secs = rest.pause.as_secs_f64();
    let values: [&(dyn ToSql + Sync); 4] =
        [event.as_uuid(), session.as_uuid(), &secs, &rest.is_answered];
    let row = cell.reader().await?.query_one(KEEP, &values).await?;
    Ok(row.get::<_, i64>(0) > 0)
}

/// Makes the events due that a session holds: its process does not know of them.
pub async fn free_own(cell: EveryCell<'_>, session: SessionId) -> Result<u64, ReadError> {
    let client = cell.reader().await?;
    Ok(client.execute(FREE_OWN, &[session.as_uuid()]).await?)
}

/// Makes the events due that lost sessions hold.
pub async fn free_lost(cell: EveryCell<'_>) -> Result<u64, ReadError> {
    Ok(cell.reader().await?.execute(FREE_LOST, &[]).await?)
}

/// The events of a key that are leased.
pub(super) async fn list_leased(cell: SlotCell<'_>, run: RunId) -> Result<Vec<Uuid>, ReadError> {
    let (low, high) = run.key_range();
    list(cell, LEASED_OF_RANGE, &[&low, &high]).await
}

/// Those of some events that are leased.
pub(super) async fn list_still_leased(
    cell: SlotCell<'_>,
    events: &[Uuid],
) -> Result<Vec<Uuid>, ReadError> {
    list(cell, LEASED, &[&events]).await
}

async fn list(
    cell: SlotCell<'_>,
    text: &str,
    values: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Uuid>, ReadError> {
    let rows = cell.reader().await?.query(text, values).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

fn read_taken(row: &Row) -> TakenEvent {
    let tries: i32 = row.get(6);
    TakenEvent {
        event: read_event(row),
        tries: tries.unsigned_abs(),
        is_answered: row.get(7),
        receivers: Vec::new(),
    }
}

fn ids_of(events: &[EffectId]) -> Vec<Uuid> {
    events.iter().map(|id| *id.as_uuid()).collect()
}
