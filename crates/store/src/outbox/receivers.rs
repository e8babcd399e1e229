//! The `outbox_receivers` table: the flows that an event is for, recorded before they are asked.
//!
//! A row says which release computed the key, and the last run of that key that the event may make. So a repeat comes
//! under the same key, whatever is live by then, and makes no run where the key has run out since. Rows go with their
//! event.

use std::collections::HashMap;

use semel_model::{ClaimId, EffectId, SeededBug, SessionId};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::cell::{EveryCell, ReadError, SlotCell};
use crate::pool::PooledClient;

// Crosses slots (V5): the number of a key is read in the commit that records an event's receivers, and the key is in
// another slot. With a second cell, the receiver's cell is asked for it first.

/// Only the server that has the lease records, and each receiver once. A key that is held gives its own run to the event;
/// one that is free, the run after its last.
const ASK: &str = "/* commits alone: outbox ask */
    INSERT INTO outbox_receivers (event_id, flow_id, release_id, run_max)
    SELECT t.event_id, t.flow_id, t.release_id,
           coalesce((SELECT coalesce(c.run_number, 0) + (c.expires_at IS NULL)::int4
                       FROM claims c WHERE c.id = t.claim_id), 0)
      FROM unnest($1::uuid[], $2::int4[], $3::int4[], $4::uuid[])
        AS t (event_id, flow_id, release_id, claim_id)
     WHERE (SELECT o.holder FROM outbox o WHERE o.id = t.event_id) = $5
     ORDER BY t.event_id, t.flow_id
        ON CONFLICT (event_id, flow_id) DO NOTHING
 RETURNING event_id, flow_id, run_max";

/// Only the server that has the lease marks. Also receivers that were never asked for a run, because they refused the
/// event.
const MARK: &str = "/* commits alone: outbox mark */
    INSERT INTO outbox_receivers (event_id, flow_id, release_id, run_max, has_it)
    SELECT $1::uuid, t.flow_id, t.release_id, 0, true
      FROM unnest($2::int4[], $3::int4[]) AS t (flow_id, release_id)
     WHERE (SELECT o.holder FROM outbox o WHERE o.id = $1) = $4::uuid
     ORDER BY t.flow_id
        ON CONFLICT (event_id, flow_id) DO UPDATE SET has_it = true";

const LIST: &str = "
    SELECT event_id, flow_id, release_id, run_max, has_it
      FROM outbox_receivers
     WHERE event_id = ANY ($1)";

pub(super) const STATEMENTS: &[&str] = &[ASK, MARK, LIST];

/// A flow that was asked for an event before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventReceiver {
    /// The flow, short.
    pub flow_id: i32,
    /// The release that computed the key, short.
    pub release_id: i32,
    /// The number of the last run of that key that the event may make.
    pub run_max: i32,
    /// Whether it has the event, or refused it for good.
    pub has_it: bool,
}

/// A flow that is about to be asked for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewReceiver {
    /// The event.
    pub event: EffectId,
    /// The flow, short.
    pub flow_id: i32,
    /// The release that computed the key, short.
    pub release_id: i32,
    /// The claim of that key.
    pub claim: ClaimId,
}

/// Records receivers before they are asked. Gives the number of the last run that each may make, by event and flow; none
/// for a receiver that is recorded already, or whose event another server has.
pub async fn ask(
    cell: EveryCell<'_>,
    session: SessionId,
    new: &[NewReceiver],
) -> Result<HashMap<(EffectId, i32), i32>, ReadError> {
    let events: Vec<Uuid> = new.iter().map(|one| *one.event.as_uuid()).collect();
    let flows: Vec<i32> = new.iter().map(|one| one.flow_id).collect();
    let releases: Vec<i32> = new.iter().map(|one| one.release_id).collect();
    let claims: Vec<Uuid> = new.iter().map(|one| *one.claim.as_uuid()).collect();
    let values: [&(dyn ToSql + Sync); 5] = [&events, &flows, &releases, &claims, session.as_uuid()];
    let text = SeededBug::ReceiversNotRecorded.in_text(
        ASK,
        "(event_id, flow_id) DO NOTHING",
        "(event_id, flow_id) DO UPDATE SET release_id = EXCLUDED.release_id",
    );
    let rows = cell.reader().await?.query(text, &values).await?;
    let numbers = rows.iter().map(|row| {
        let receiver = (EffectId::from_uuid(row.get(0)), row.get(1));
        (receiver, row.get(2))
    });
    Ok(numbers.collect())
}

/// Notes that receivers have an event that stays for others: pairs of a flow and a release.
pub async fn mark(
    cell: SlotCell<'_>,
    session: SessionId,
    event: EffectId,
    receivers: &[(i32, i32)],
) -> Result<(), ReadError> {
    let (flows, releases): (Vec<i32>, Vec<i32>) = receivers.iter().copied().unzip();
    let values: [&(dyn ToSql + Sync); 4] = [event.as_uuid(), &flows, &releases, session.as_uuid()];
    cell.reader().await?.execute(MARK, &values).await?;
    Ok(())
}

/// The receivers of events that were asked before, by event.
pub(super) async fn list(
    client: &PooledClient,
    events: &[Uuid],
) -> Result<HashMap<EffectId, Vec<EventReceiver>>, ReadError> {
    let mut known: HashMap<EffectId, Vec<EventReceiver>> = HashMap::new();
    if SeededBug::ReceiversNotRecorded.is_seeded() {
        return Ok(known);
    }
    for row in client.query(LIST, &[&events]).await? {
        let receiver = EventReceiver {
            flow_id: row.get(1),
            release_id: row.get(2),
            run_max: row.get(3),
            has_it: row.get(4),
        };
        let event = EffectId::from_uuid(row.get(0));
        known.entry(event).or_default().push(receiver);
    }
    Ok(known)
}
