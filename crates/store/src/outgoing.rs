//! The `outgoing` table: deliveries of events to subscribed webhooks.

use jiff::Timestamp;
use semel_model::{EffectId, Span};

use crate::cell::{Cell, ReadError};
use crate::outbox::Event;
use crate::subscriptions::Subscription;

const INSERT: &str = "
    INSERT INTO outgoing (event_id, namespace_id, subscription, connection, body, emitted_at, due_at)
    VALUES ($1, $2, $3, $4, $5::text::json, $6, moment())
        ON CONFLICT (event_id, subscription) DO NOTHING";

/// Whoever takes a delivery has it until its lease is over; then another may try.
const TAKE: &str = "
    UPDATE outgoing o
       SET attempt = o.attempt + 1, due_at = moment() + make_interval(secs => $2)
      FROM (SELECT event_id, subscription FROM outgoing
             WHERE state = 'due' AND due_at <= moment()
             ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED) AS t
     WHERE o.event_id = t.event_id AND o.subscription = t.subscription
 RETURNING o.event_id, o.namespace_id, o.subscription, o.connection, o.body::text, o.attempt,
           o.emitted_at";

const SETTLE: &str = "
    UPDATE outgoing
       SET state = $3::text::outgoing_state, note = $4, due_at = coalesce($5, due_at),
           settled_at = CASE WHEN $3 = 'due' THEN NULL ELSE moment() END
     WHERE event_id = $1 AND subscription = $2 AND state = 'due' AND attempt = $6";

const FORGET: &str = "
    DELETE FROM outgoing
     WHERE (event_id, subscription) IN (
           SELECT event_id, subscription FROM outgoing
            WHERE state <> 'due' AND settled_at < moment() - interval '30 days' LIMIT 5000)";

pub(crate) const STATEMENTS: &[&str] = &[INSERT, TAKE, SETTLE, FORGET];

/// A delivery that is due.
#[derive(Clone, Debug)]
pub struct Due {
    /// The event: the delivery key.
    pub event: EffectId,
    /// Whose it is.
    pub namespace_id: i32,
    /// The subscription.
    pub subscription: String,
    /// The connection that it goes to.
    pub connection: String,
    /// The same bytes on every attempt.
    pub body: String,
    /// The number of this attempt.
    pub attempt: i32,
    /// When the event committed.
    pub emitted_at: Timestamp,
}

/// What an attempt at a delivery came to.
#[derive(Clone, Debug)]
pub enum Settled {
    /// The receiver took it.
    Delivered,
    /// It is tried again.
    Again {
        /// When.
        at: Timestamp,
        /// What was seen.
        note: String,
    },
    /// It is not tried again.
    GivenUp(String),
}

/// Makes a delivery due, unless there is one.
pub async fn insert(
    cell: &Cell,
    event: &Event,
    subscription: &Subscription,
    body: &str,
) -> Result<(), ReadError> {
    let client = cell.reader().await?;
    let Subscription {
        name, connection, ..
    } = subscription;
    client
        .execute(
            INSERT,
            &[
                event.id.as_uuid(),
                &event.namespace_id,
                name,
                connection,
                &body,
                &event.emitted_at,
            ],
        )
        .await?;
    Ok(())
}

/// Takes deliveries that are due, for as long as `lease`.
pub async fn take_due(cell: &Cell, most: i64, lease: Span) -> Result<Vec<Due>, ReadError> {
    let secs = lease.as_millis() as f64 / 1e3;
    let client = cell.reader().await?;
    let rows = client.query(TAKE, &[&most, &secs]).await?;
    Ok(rows
        .iter()
        .map(|row| Due {
            event: EffectId::from_uuid(row.get(0)),
            namespace_id: row.get(1),
            subscription: row.get(2),
            connection: row.get(3),
            body: row.get(4),
            attempt: row.get(5),
            emitted_at: row.get(6),
        })
        .collect())
}

/// Writes down what an attempt came to, unless a later one was begun.
pub async fn settle(cell: &Cell, due: &Due, settled: &Settled) -> Result<(), ReadError> {
    let (state, note, at) = match settled {
        Settled::Delivered => ("delivered", None, None),
        Settled::Again { at, note } => ("due", Some(note), Some(*at)),
        Settled::GivenUp(note) => ("given_up", Some(note), None),
    };
    let client = cell.reader().await?;
    client
        .execute(
            SETTLE,
            &[
                due.event.as_uuid(),
                &due.subscription,
                &state,
                &note,
                &at,
                &due.attempt,
            ],
        )
        .await?;
    Ok(())
}

/// Forgets deliveries that were settled a month ago.
pub async fn forget(cell: &Cell) -> Result<u64, ReadError> {
    Ok(cell.reader().await?.execute(FORGET, &[]).await?)
}
