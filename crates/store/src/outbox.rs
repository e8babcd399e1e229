//! The `outbox` table: events that committed with their run and are not spread yet.

use jiff::Timestamp;
use semel_model::request::Emission;
use semel_model::{EffectId, RunId};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::cell::{Cell, ReadError};
use crate::journal::Transition;

/// A write that is submitted twice emits once: the identity is the effect's.
pub(crate) const EMIT: &str = "
    INSERT INTO outbox (id, namespace_id, run_id, event, data, emitted_at)
    SELECT t.id, t.namespace_id, t.run_id, t.event, t.data::json, moment()
      FROM unnest($1::uuid[], $2::int4[], $3::uuid[], $4::text[], $5::text[])
        AS t (id, namespace_id, run_id, event, data)
        ON CONFLICT (id) DO NOTHING";

const OLDEST: &str = "
    SELECT id, namespace_id, run_id, event, data::text, emitted_at
      FROM outbox ORDER BY emitted_at LIMIT $1";

const REMOVE: &str = "DELETE FROM outbox WHERE id = ANY($1)";

pub(crate) const STATEMENTS: &[&str] = &[EMIT, OLDEST, REMOVE];

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
pub struct Event {
    /// The effect that emitted it: the delivery key.
    pub id: EffectId,
    /// Whose it is.
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

/// The oldest events that nobody has spread yet.
pub async fn list_oldest(cell: &Cell, most: i64) -> Result<Vec<Event>, ReadError> {
    let client = cell.reader().await?;
    let rows = client.query(OLDEST, &[&most]).await?;
    Ok(rows
        .iter()
        .map(|row| Event {
            id: EffectId::from_uuid(row.get(0)),
            namespace_id: row.get(1),
            run: RunId::from_uuid(row.get(2)),
            event: row.get(3),
            data: row.get(4),
            emitted_at: row.get(5),
        })
        .collect())
}

/// Removes events whose receivers all have them.
pub async fn remove(cell: &Cell, events: &[EffectId]) -> Result<(), ReadError> {
    let ids: Vec<Uuid> = events.iter().map(|id| *id.as_uuid()).collect();
    cell.reader().await?.execute(REMOVE, &[&ids]).await?;
    Ok(())
}
