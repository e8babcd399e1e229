//! The `outbox` table: events that committed with their run and are not dispatched yet.
//!
//! ```text
//! emitted ══▶ due ══▶ leased ══▶ gone: every receiver has it
//!              ▲        ║
//!              ╚════════╝ given back; later; for a newer version; unreadable
//! ```
//!
//! `══▶` is a commit. A server takes events under a lease ([`OutboxTaker`]), records which flows it is about to ask
//! ([`ask`]), and settles each event once it is through. No transaction is open in between. The interleavings are in
//! `docs/decisions/0022-outbox-leases.md`.

mod depth;
mod leases;
mod receivers;

pub use depth::{OutboxDepth, depth};
pub use leases::{
    OutboxRest, OutboxTaker, TakenEvent, defer, free_lost, free_own, give_back, keep, renew, settle,
};
pub use receivers::{EventReceiver, NewReceiver, ask, mark};

use std::time::{Duration, Instant};

use jiff::Timestamp;
use semel_model::request::Emission;
use semel_model::{EffectId, RunId};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::cell::{ReadError, SlotCell};
use crate::journal::Transition;

/// A write that is submitted twice emits once: the identity is the effect's.
pub(crate) const EMIT: &str = "
    INSERT INTO outbox (id, namespace_id, run_id, event, data, emitted_at)
    SELECT t.id, t.namespace_id, t.run_id, t.event, t.data::json, moment()
      FROM unnest($1::uuid[], $2::int4[], $3::uuid[], $4::text[], $5::text[])
        AS t (id, namespace_id, run_id, event, data)
        ON CONFLICT (id) DO NOTHING";

pub(crate) const STATEMENTS: &[&str] = &[EMIT];
pub(crate) const LEASES: &[&str] = leases::STATEMENTS;
pub(crate) const RECEIVERS: &[&str] = receivers::STATEMENTS;
pub(crate) const DEPTH: &[&str] = depth::STATEMENTS;

/// How long an erasure waits for leased events: longer than a statement may take, so that none is left that began before
/// the runs were closed.
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

/// Waits until none of a key's events is leased that is leased now. Whoever takes one later hands it over when the runs
/// are closed, and the delivery that it makes then says so. No connection is held meanwhile, because whoever dispatches
/// needs some.
pub(crate) async fn await_dispatch(cell: SlotCell<'_>, run: RunId) -> Result<(), ReadError> {
    let until = Instant::now() + DISPATCH_PATIENCE;
    let mut leased = leases::list_leased(cell, run).await?;
    while !leased.is_empty() && Instant::now() < until {
        tokio::time::sleep(DISPATCH_LOOK_EVERY).await;
        leased = leases::list_still_leased(cell, &leased).await?;
    }
    Ok(())
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
