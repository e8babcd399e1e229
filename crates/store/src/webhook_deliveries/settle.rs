//! How a delivery ends, and what is erased of it.

use jiff::Timestamp;
use semel_model::RunId;

use super::DueDelivery;
use crate::cell::{ReadError, SlotCell};
use crate::outbox;

/// Of what was erased nothing stays once it is over.
pub(super) const SETTLE: &str = "/* commits alone: webhook settle */
    UPDATE webhook_deliveries
       SET state = $3::text::webhook_delivery_state, due_at = coalesce($5, due_at),
           note = CASE WHEN $3 = 'due' OR NOT is_erased THEN $4 END,
           body = CASE WHEN $3 = 'due' OR NOT is_erased THEN body ELSE '\"erased\"' END,
           settled_at = CASE WHEN $3 = 'due' THEN NULL ELSE moment() END
     WHERE event_id = $1 AND subscription = $2 AND state = 'due' AND attempt = $6";

/// What is due goes out as it was.
pub(super) const ERASE: &str = "
    UPDATE webhook_deliveries
       SET is_erased = true,
           note = CASE WHEN state = 'due' THEN note END,
           body = CASE WHEN state = 'due' THEN body ELSE '\"erased\"' END
     WHERE (event_id, subscription) IN
           (SELECT event_id, subscription FROM webhook_deliveries
             WHERE event_id BETWEEN $1 AND $2 AND NOT is_erased
             ORDER BY event_id, subscription
             LIMIT $3
               FOR UPDATE)";

/// The most deliveries that one commit erases.
const ERASE_MAX: i64 = 1_000;

/// The result of an attempt at a delivery.
#[derive(Clone, Debug)]
pub enum DeliveryResult {
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
    Failed(String),
}

/// Records the result of an attempt, unless a later one was begun.
pub async fn settle(
    cell: SlotCell<'_>,
    due: &DueDelivery,
    settled: &DeliveryResult,
) -> Result<(), ReadError> {
    let (state, note, at) = match settled {
        DeliveryResult::Delivered => ("delivered", None, None),
        DeliveryResult::Again { at, note } => ("due", Some(note), Some(*at)),
        DeliveryResult::Failed(note) => ("failed", Some(note), None),
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

/// Erases the events of a run's key: what is over now, and what is due once it is over. Its runs are marked as erased.
pub async fn erase(cell: SlotCell<'_>, run: RunId) -> Result<(), ReadError> {
    let (low, high) = run.key_range();
    outbox::await_dispatch(cell, low, high).await?;
    let client = cell.reader().await?;
    while client.execute(ERASE, &[&low, &high, &ERASE_MAX]).await? > 0 {}
    Ok(())
}
