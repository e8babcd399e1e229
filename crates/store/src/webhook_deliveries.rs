//! The `webhook_deliveries` table: deliveries of events to subscribed webhooks.
//!
//! ```text
//! due ──┬──▶ delivered
//!       └──▶ failed ──▶ due, when an operator has it retried
//! ```
//!
//! Each subscription is a line of its own: a process takes few deliveries of each, and of the line
//! that was served least recently first, so that slow receivers hold up no others, however many
//! they are. Namespaces take turns: the first line of each, then the second of each, and so on, and
//! the namespace that was served least recently before the others; one has not all places.

mod settle;

pub use settle::{DeliveryResult, erase, settle};

use jiff::Timestamp;
use semel_model::{EffectId, Span};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::audit::{self, AuditEntry};
use crate::cell::{Cell, EveryCell, ReadError, SlotCell};
use crate::listed::NEWEST;
use crate::outbox::OutboxEvent;

// Crosses slots (V3): a delivery, which is in its event's slot, is made and taken beside a lock or a
// join on `subscriptions`, which are control data. A second cell needs a replica of them.

/// One row per subscription that takes the event. The lock keeps a subscription from being removed
/// between being read and being delivered to.
/// An erasure waits for events that are being dispatched, so that a run whose event is dispatched after it is seen to be
/// erased. The root of an erasure is closed first; its items and branches are only ever erased.
const INSERT: &str = "
    INSERT INTO webhook_deliveries (event_id, namespace_id, subscription, connection, event, body, emitted_at,
                                    due_at, is_erased)
    SELECT $1, s.namespace_id, s.name, s.connection, $3, $4::text::json, $5, moment(),
           coalesce((SELECT num_nonnulls(r.closed_at, r.erased_at) > 0 FROM runs r WHERE r.id = $6), false)
      FROM subscriptions s
     WHERE s.namespace_id = $2 AND s.created_at <= $5
       AND (s.event = $3
            OR (right(s.event, 2) = '.*' AND starts_with($3, left(s.event, -1))))
       FOR KEY SHARE
        ON CONFLICT (event_id, subscription) DO NOTHING";

/// A process that takes a delivery has it until its lease ends; then another may try. Lines and namespaces that
/// were never served come first, then the least recently served. A line counts as far as it has something due:
/// `due_count` is how much may be taken of it, `before` how much of those of its namespace that stand before it.
/// What goes over a paused connection stays due, and the time for its attempts begins anew with the end of the pause.
const TAKE: &str = "/* commits alone: webhook take */
    UPDATE webhook_deliveries o
       SET attempt = o.attempt + 1, due_at = moment() + make_interval(secs => $3),
           connection = t.connection,
           retry_since = greatest(o.retry_since,
                                  (SELECT p.resumed_at FROM pauses p
                                    WHERE p.namespace_id = t.namespace_id AND p.kind = 'connection'
                                      AND p.name = ANY (ARRAY[t.connection]) AND p.resumed_at IS NOT NULL
                                    ORDER BY p.resumed_at DESC LIMIT 1))
      FROM (SELECT d.event_id, d.subscription, s.connection, s.namespace_id
              FROM (SELECT l.namespace_id, l.name, l.connection, l.due_count, l.room,
                           row_number() OVER line AS turn,
                           (sum(l.due_count) OVER line)::int8 - l.due_count AS before
                      FROM (SELECT s.namespace_id, s.name, s.connection, w.due_count, line.served,
                                   whole.served AS namespace_served,
                                   $8::int8 - coalesce(whole.busy, 0) AS room
                              FROM subscriptions s
                              LEFT JOIN unnest($4::int4[], $5::text[], $6::int8[], $7::int8[])
                                     AS line (namespace_id, name, busy, served)
                                     ON line.namespace_id = s.namespace_id AND line.name = s.name
                              LEFT JOIN unnest($9::int4[], $10::int8[], $11::int8[])
                                     AS whole (namespace_id, busy, served)
                                     ON whole.namespace_id = s.namespace_id
                             CROSS JOIN LATERAL (
                                   SELECT count(*) AS due_count
                                     FROM (SELECT 1 FROM webhook_deliveries
                                            WHERE namespace_id = s.namespace_id AND subscription = s.name
                                              AND state = 'due' AND due_at <= (SELECT moment())
                                            LIMIT greatest($2 - coalesce(line.busy, 0), 0)) AS few) AS w
                             WHERE w.due_count > 0
                               AND (SELECT p.id FROM pauses p
                                     WHERE p.namespace_id = s.namespace_id AND p.kind = 'connection'
                                       AND p.name = ANY (ARRAY[s.connection]) AND p.resumed_at IS NULL
                                     LIMIT 1) IS NULL) AS l
                    WINDOW line AS (PARTITION BY l.namespace_id ORDER BY l.served NULLS FIRST, l.name
                                     ROWS UNBOUNDED PRECEDING)
                     ORDER BY turn, l.namespace_served NULLS FIRST, l.namespace_id
                    OFFSET 0) AS s
             CROSS JOIN LATERAL (
                   SELECT event_id, subscription FROM webhook_deliveries
                    WHERE namespace_id = s.namespace_id AND subscription = s.name
                      AND state = 'due' AND due_at <= (SELECT moment())
                    ORDER BY due_at LIMIT greatest(least(s.due_count, s.room - s.before), 0)
                      FOR UPDATE SKIP LOCKED) AS d
             LIMIT $1) AS t
     WHERE o.event_id = t.event_id AND o.subscription = t.subscription
 RETURNING o.event_id, o.namespace_id, o.subscription, o.connection, o.body::text, o.attempt,
           o.retry_since";

/// The count starts again: every earlier attempt is over, since the delivery was `failed`. Of what was erased nothing
/// is left to send.
const RETRY: &str = "
    UPDATE webhook_deliveries
       SET state = 'due', attempt = 0, due_at = moment(), retry_since = moment(), settled_at = NULL
     WHERE namespace_id = $1 AND subscription = $2 AND event_id = $3 AND state = 'failed'
       AND NOT is_erased";

pub(crate) const FAIL_OF_SUBSCRIPTION: &str = "
    UPDATE webhook_deliveries
       SET state = 'failed', settled_at = moment(), note = 'its subscription was removed',
           body = CASE WHEN is_erased THEN '\"erased\"' ELSE body END
     WHERE namespace_id = $1 AND subscription = $2 AND state = 'due'";

macro_rules! listed {
    ($condition:literal) => {
        concat!(
            "
    SELECT event_id, event, connection, state::text, attempt, emitted_at, due_at,
           settled_at, note
      FROM webhook_deliveries
     WHERE namespace_id = $1 AND subscription = $2 AND (emitted_at, event_id) < ($3, $4)",
            $condition,
            "
     ORDER BY emitted_at DESC, event_id DESC
     LIMIT $5"
        )
    };
}

const LIST: &str = listed!("");
const LIST_OF_STATE: &str = listed!(" AND state::text = $6");

const STATE: &str = "
    SELECT state::text, is_erased
      FROM webhook_deliveries
     WHERE namespace_id = $1 AND subscription = $2 AND event_id = $3";

const OF_EVENT: &str = "
    SELECT subscription, state::text, attempt, due_at, settled_at, note
      FROM webhook_deliveries
     WHERE event_id = $1 AND namespace_id = $2
     ORDER BY subscription";

const FORGET: &str = "
    DELETE FROM webhook_deliveries
     WHERE (event_id, subscription) IN (
           SELECT event_id, subscription FROM webhook_deliveries
            WHERE state <> 'due' AND settled_at < (SELECT moment()) - interval '30 days' LIMIT 5000)";

pub(crate) const STATEMENTS: &[&str] = &[
    INSERT,
    TAKE,
    settle::SETTLE,
    settle::ERASE,
    RETRY,
    FAIL_OF_SUBSCRIPTION,
    LIST,
    LIST_OF_STATE,
    STATE,
    OF_EVENT,
    FORGET,
];

/// A delivery that is due.
#[derive(Clone, Debug)]
pub struct DueDelivery {
    /// The event: the delivery key.
    pub event: EffectId,
    /// The namespace that owns it.
    pub namespace_id: i32,
    /// The subscription.
    pub subscription: String,
    /// The connection that it goes to.
    pub connection: String,
    /// The same bytes on every attempt.
    pub body: String,
    /// The number of this attempt.
    pub attempt: i32,
    /// From when the time for its attempts counts.
    pub since: Timestamp,
}

/// How many deliveries may be in flight, and which are.
#[derive(Clone, Debug)]
pub struct DeliveryCapacity {
    /// How many deliveries may be taken.
    pub total: i64,
    /// How many may be in flight to one subscription.
    pub each: i64,
    /// How many may be in flight to all subscriptions of one namespace.
    pub each_namespace: i64,
    /// The lines that were served before.
    pub lines: Vec<SubscriptionLoad>,
    /// The namespaces that were served before.
    pub namespaces: Vec<NamespaceLoad>,
}

/// The deliveries of one namespace, as one process has served them.
#[derive(Clone, Copy, Debug)]
pub struct NamespaceLoad {
    /// The namespace.
    pub namespace_id: i32,
    /// How many are in flight.
    pub busy: i64,
    /// When one of its lines was last served: a number that grows from one take to the next.
    pub served: i64,
}

/// The deliveries to one subscription, as one process has served them.
#[derive(Clone, Debug)]
pub struct SubscriptionLoad {
    /// The namespace that owns it.
    pub namespace_id: i32,
    /// The subscription.
    pub subscription: String,
    /// How many are in flight.
    pub busy: i64,
    /// When it was last served: a number that grows from one take to the next.
    pub served: i64,
}

/// A delivery as an operator sees it.
#[derive(Clone, Debug)]
pub struct DeliveryView {
    /// The event's identity.
    pub event: EffectId,
    /// The event.
    pub name: String,
    /// The connection that the latest attempt went to.
    pub connection: String,
    /// Where it stands: `due`, `delivered` or `failed`.
    pub state: String,
    /// How often it was tried.
    pub attempt: i32,
    /// When the event committed.
    pub emitted_at: Timestamp,
    /// When it is tried next.
    pub due_at: Timestamp,
    /// When it was delivered, or when Semel stopped retrying it.
    pub settled_at: Option<Timestamp>,
    /// What was seen on the last attempt.
    pub note: Option<String>,
}

/// Makes an event due to every subscription that takes it, unless it is already.
pub async fn insert(cell: SlotCell<'_>, event: &OutboxEvent, body: &str) -> Result<(), ReadError> {
    let client = cell.reader().await?;
    let (id, namespace_id) = (event.id.as_uuid(), &event.namespace_id);
    client
        .execute(
            INSERT,
            &[
                id,
                namespace_id,
                &event.event,
                &body,
                &event.emitted_at,
                event.run.as_uuid(),
            ],
        )
        .await?;
    Ok(())
}

/// Takes deliveries that are due, for as long as `lease`.
pub async fn take_due(
    cell: &Cell,
    room: &DeliveryCapacity,
    lease: Span,
) -> Result<Vec<DueDelivery>, ReadError> {
    let secs = lease.as_secs_f64();
    let lines = room.lines.iter();
    let namespaces: Vec<i32> = lines.clone().map(|line| line.namespace_id).collect();
    let names: Vec<&str> = lines.clone().map(|it| it.subscription.as_str()).collect();
    let counts: Vec<i64> = lines.clone().map(|line| line.busy).collect();
    let served: Vec<i64> = lines.map(|line| line.served).collect();
    let wholes = room.namespaces.iter();
    let whole_ids: Vec<i32> = wholes.clone().map(|it| it.namespace_id).collect();
    let whole_counts: Vec<i64> = wholes.clone().map(|it| it.busy).collect();
    let whole_served: Vec<i64> = wholes.map(|it| it.served).collect();
    let values: [&(dyn ToSql + Sync); 11] = [
        &room.total,
        &room.each,
        &secs,
        &namespaces,
        &names,
        &counts,
        &served,
        &room.each_namespace,
        &whole_ids,
        &whole_counts,
        &whole_served,
    ];
    let client = cell.reader().await?;
    let rows = client.query(TAKE, &values).await?;
    Ok(rows
        .iter()
        .map(|row| DueDelivery {
            event: EffectId::from_uuid(row.get(0)),
            namespace_id: row.get(1),
            subscription: row.get(2),
            connection: row.get(3),
            body: row.get(4),
            attempt: row.get(5),
            since: row.get(6),
        })
        .collect())
}

/// Makes a `failed` delivery due again; false if it was not `failed`, or was erased.
pub async fn retry(
    cell: SlotCell<'_>,
    namespace_id: i32,
    subscription: &str,
    event: EffectId,
    act: &AuditEntry,
) -> Result<bool, ReadError> {
    let values: [&(dyn ToSql + Sync); 3] = [&namespace_id, &subscription, event.as_uuid()];
    Ok(audit::execute(cell, RETRY, &values, act).await? > 0)
}

/// Where a delivery stands, and whether it was erased; nothing when there is none.
pub async fn find_state(
    cell: SlotCell<'_>,
    namespace_id: i32,
    subscription: &str,
    event: EffectId,
) -> Result<Option<(String, bool)>, ReadError> {
    let client = cell.reader().await?;
    let values: [&(dyn ToSql + Sync); 3] = [&namespace_id, &subscription, event.as_uuid()];
    let row = client.query_opt(STATE, &values).await?;
    Ok(row.map(|row| (row.get(0), row.get(1))))
}

/// Lists the deliveries of a subscription, the latest event first.
pub async fn list(
    cell: EveryCell<'_>,
    namespace_id: i32,
    subscription: &str,
    state: Option<&str>,
    before: Option<(Timestamp, EffectId)>,
    limit: u16,
) -> Result<Vec<DeliveryView>, ReadError> {
    let (at, id) = before.map_or(NEWEST, |(at, id)| (at, *id.as_uuid()));
    let limit = i64::from(limit);
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&namespace_id, &subscription, &at, &id, &limit];
    let text = match &state {
        Some(state) => {
            values.push(state);
            LIST_OF_STATE
        }
        None => LIST,
    };
    let rows = cell.reader().await?.query(text, &values).await?;
    Ok(rows.iter().map(read_view).collect())
}

/// The delivery of an event to one subscription, as an operator sees it.
#[derive(Clone, Debug)]
pub struct SubscriptionDelivery {
    /// The subscription.
    pub subscription: String,
    /// Where it stands: `due`, `delivered` or `failed`.
    pub state: String,
    /// How often it was tried.
    pub attempt: i32,
    /// When it is tried next.
    pub due_at: Timestamp,
    /// When it was delivered, or when Semel stopped retrying it.
    pub settled_at: Option<Timestamp>,
    /// What was seen on the last attempt.
    pub note: Option<String>,
}

/// Lists the deliveries of an event, by subscription.
pub async fn list_of_event(
    cell: SlotCell<'_>,
    namespace_id: i32,
    event: EffectId,
) -> Result<Vec<SubscriptionDelivery>, ReadError> {
    let values: [&(dyn ToSql + Sync); 2] = [event.as_uuid(), &namespace_id];
    let rows = cell.reader().await?.query(OF_EVENT, &values).await?;
    let view = |row: &Row| SubscriptionDelivery {
        subscription: row.get(0),
        state: row.get(1),
        attempt: row.get(2),
        due_at: row.get(3),
        settled_at: row.get(4),
        note: row.get(5),
    };
    Ok(rows.iter().map(view).collect())
}

/// Deletes deliveries that were settled a month ago.
pub async fn forget(cell: EveryCell<'_>) -> Result<u64, ReadError> {
    Ok(cell.reader().await?.execute(FORGET, &[]).await?)
}

fn read_view(row: &Row) -> DeliveryView {
    DeliveryView {
        event: EffectId::from_uuid(row.get(0)),
        name: row.get(1),
        connection: row.get(2),
        state: row.get(3),
        attempt: row.get(4),
        emitted_at: row.get(5),
        due_at: row.get(6),
        settled_at: row.get(7),
        note: row.get(8),
    }
}
