//! How a delivery ends, and what is erased of it.

use std::time::Duration;

use jiff::Timestamp;
use semel_model::RunId;
use tokio_postgres::types::ToSql;

use super::DueDelivery;
use crate::cell::{ReadError, SlotCell};
use crate::column_text::ColumnText;
use crate::outbox;

/// Of what was erased nothing stays once it is over.
pub(super) const SETTLE: &str = "/* commits alone: webhook settle */
    UPDATE webhook_deliveries
       SET state = $3::text::webhook_delivery_state, due_at = coalesce($5, due_at),
           note = CASE WHEN $3 = 'due' OR NOT is_erased THEN $4 END,
           body = CASE WHEN $3 = 'due' OR NOT is_erased THEN body ELSE '\"erased\"' END,
           settled_at = CASE WHEN $3 = 'due' THEN NULL ELSE moment() END
     WHERE event_id = $1 AND subscription = $2 AND state = 'due' AND attempt = $6";

/// What is due goes out as it was. A later run of the same key may have emitted since. Gives the last delivery.
pub(super) const ERASE: &str = "
    WITH page AS MATERIALIZED (
        SELECT event_id, subscription FROM webhook_deliveries
         WHERE (event_id, subscription) > ($1, $2) AND event_id <= $3 AND emitted_at <= $4
         ORDER BY event_id, subscription
         LIMIT $5
           FOR UPDATE),
    erased AS (
        UPDATE webhook_deliveries d
           SET is_erased = true,
               note = CASE WHEN d.state = 'due' THEN d.note END,
               body = CASE WHEN d.state = 'due' THEN d.body ELSE '\"erased\"' END
          FROM page p
         WHERE d.event_id = p.event_id AND d.subscription = p.subscription AND NOT d.is_erased)
    SELECT event_id, subscription FROM page ORDER BY event_id DESC, subscription DESC LIMIT 1";

/// The most deliveries that one commit erases.
const ERASE_MAX: i64 = 1_000;

/// How long two such commits are apart.
const ERASE_PAUSE: Duration = Duration::from_millis(10);

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
    // It may quote what the receiver answered.
    let note = note.map(|note| ColumnText::words(note));
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

/// Erases the events that the runs of a key emitted until then: what is over now, and what is due once it is over. The
/// runs are closed.
pub async fn erase(cell: SlotCell<'_>, run: RunId, until: Timestamp) -> Result<(), ReadError> {
    let (low, high) = run.key_range();
    outbox::await_dispatch(cell, run).await?;
    let mut last = (low, String::new());
    loop {
        let values: [&(dyn ToSql + Sync); 5] = [&last.0, &last.1, &high, &until, &ERASE_MAX];
        let row = cell.reader().await?.query_opt(ERASE, &values).await?;
        let Some(row) = row else {
            return Ok(());
        };
        last = (row.get(0), row.get(1));
        tokio::time::sleep(ERASE_PAUSE).await;
    }
}
