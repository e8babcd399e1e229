//! The `outbox` table: events that committed with their run and are not dispatched yet.

use std::time::{Duration, Instant};

use deadpool_postgres::Transaction;
use jiff::Timestamp;
use semel_model::request::Emission;
use semel_model::{EffectId, RunId};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::cell::{Cell, ReadError, SlotCell};
use crate::journal::Transition;
use crate::listed::OLDEST;
use crate::pool::PooledClient;

/// A write that is submitted twice emits once: the identity is the effect's.
pub(crate) const EMIT: &str = "
    INSERT INTO outbox (id, namespace_id, run_id, event, data, emitted_at)
    SELECT t.id, t.namespace_id, t.run_id, t.event, t.data::json, moment()
      FROM unnest($1::uuid[], $2::int4[], $3::uuid[], $4::text[], $5::text[])
        AS t (id, namespace_id, run_id, event, data)
        ON CONFLICT (id) DO NOTHING";

/// Events that another server dispatches at this moment are skipped.
const TAKE: &str = "
    SELECT id, namespace_id, run_id, event, data::text, emitted_at
      FROM outbox
     WHERE (emitted_at, id) > ($2, $3)
     ORDER BY emitted_at, id LIMIT $1 FOR UPDATE SKIP LOCKED";

const OF_RANGE: &str = "SELECT id FROM outbox WHERE id BETWEEN $1 AND $2";

/// Events that a server dispatches at this moment.
const DISPATCHED_NOW: &str = "
    WITH free AS MATERIALIZED (SELECT id FROM outbox WHERE id = ANY ($1) FOR UPDATE SKIP LOCKED)
    SELECT id FROM outbox WHERE id = ANY ($1) AND id NOT IN (SELECT id FROM free)";

const REMOVE: &str = "DELETE FROM outbox WHERE id = ANY($1)";

pub(crate) const STATEMENTS: &[&str] = &[EMIT, TAKE, OF_RANGE, DISPATCHED_NOW, REMOVE];

/// How long an erasure waits for events that are being dispatched: longer than a statement may take, so that none is
/// left that began before the runs were marked.
const DISPATCH_PATIENCE: Duration = Duration::from_secs(20);

/// How often it looks.
const DISPATCH_LOOK_EVERY: Duration = Duration::from_millis(50);

/// An event that a transition carries.
#[derive(Clone, Debug)]
pub struct Emitted {
    /// The effect that emits it.
    pub effect: EffectId,
    /// What it says.
    pub emission: Emission,
}

/// An event on its way.
#[derive(Clone, Debug)]
pub struct OutboxEvent {
    /// The effect that emitted it: the delivery key.
    pub id: EffectId,
    /// The namespace that owns it.
    pub namespace_id: i32,
    /// The run that emitted it.
    pub run: RunId,
    /// The event.
    pub event: String,
    /// What it carries, as JSON text.
    pub data: String,
    /// When it committed.
    pub emitted_at: Timestamp,
}

/// Events of a batch, by column.
#[derive(Default)]
pub(crate) struct Rows<'a> {
    ids: Vec<Uuid>,
    namespaces: Vec<i32>,
    runs: Vec<Uuid>,
    events: Vec<&'a str>,
    data: Vec<String>,
}

impl<'a> Rows<'a> {
    pub(crate) fn push(&mut self, item: &Transition, emitted: &'a Emitted) {
        self.ids.push(*emitted.effect.as_uuid());
        self.namespaces.push(item.namespace_id);
        self.runs.push(*item.run.as_uuid());
        self.events.push(&emitted.emission.event);
        self.data.push(emitted.emission.data.to_string());
    }

    pub(crate) fn values(&self) -> Option<Vec<&(dyn ToSql + Sync)>> {
        (!self.ids.is_empty()).then(|| {
            vec![
                &self.ids as &(dyn ToSql + Sync),
                &self.namespaces,
                &self.runs,
                &self.events,
                &self.data,
            ]
        })
    }
}

/// A connection for dispatching events.
pub struct Dispatching {
    client: PooledClient,
}

// Crosses slots (V5): runs of other slots are accepted while this transaction is open. Before a second
// cell, an event is taken under a lease, and its row notes which cells have it.

/// Events that no other process dispatches until they are removed or this is dropped.
///
/// They stay locked in an open transaction: if the process dies, the database returns them to the
/// others by itself.
pub struct OutboxBatch<'a> {
    tx: Transaction<'a>,
    /// The events, oldest first.
    pub events: Vec<OutboxEvent>,
}

/// A connection on which events can be taken.
pub async fn start_dispatching(cell: &Cell) -> Result<Dispatching, ReadError> {
    let client = cell.reader().await?;
    Ok(Dispatching { client })
}

impl Dispatching {
    /// Takes the oldest events, or the oldest behind one of them.
    pub async fn take(
        &mut self,
        after: Option<&OutboxEvent>,
        most: i64,
    ) -> Result<OutboxBatch<'_>, ReadError> {
        let (at, id) = after.map_or(OLDEST, |it| (it.emitted_at, *it.id.as_uuid()));
        let tx = self.client.transaction().await?;
        let rows = tx.query(TAKE, &[&most, &at, &id]).await?;
        let events = rows.iter().map(read_event).collect();
        Ok(OutboxBatch { tx, events })
    }
}

impl OutboxBatch<'_> {
    /// Removes the events whose receivers all have them, and gives the others back.
    pub async fn remove(self, through: &[EffectId]) -> Result<(), ReadError> {
        let ids: Vec<Uuid> = through.iter().map(|id| *id.as_uuid()).collect();
        self.tx.execute(REMOVE, &[&ids]).await?;
        Ok(self.tx.commit().await?)
    }
}

/// Waits until none of the events that a range has now is being dispatched: what is dispatched later sees what is
/// committed now. It holds no connection while it waits, because whoever dispatches needs some.
pub(crate) async fn await_dispatch(
    cell: SlotCell<'_>,
    low: Uuid,
    high: Uuid,
) -> Result<(), ReadError> {
    let until = Instant::now() + DISPATCH_PATIENCE;
    let mut ids = list_ids(cell, OF_RANGE, &[&low, &high]).await?;
    while !ids.is_empty() && Instant::now() < until {
        tokio::time::sleep(DISPATCH_LOOK_EVERY).await;
        ids = list_ids(cell, DISPATCHED_NOW, &[&ids]).await?;
    }
    Ok(())
}

async fn list_ids(
    cell: SlotCell<'_>,
    text: &str,
    values: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Uuid>, ReadError> {
    let rows = cell.reader().await?.query(text, values).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

pub(crate) fn read_event(row: &Row) -> OutboxEvent {
    OutboxEvent {
        id: EffectId::from_uuid(row.get(0)),
        namespace_id: row.get(1),
        run: RunId::from_uuid(row.get(2)),
        event: row.get(3),
        data: row.get(4),
        emitted_at: row.get(5),
    }
}
