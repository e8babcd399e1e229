//! Deliveries that came too late, as the API lists them.

use jiff::Timestamp;
use semel_model::{ClaimId, Fingerprint, Key, RunId};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::cell::{EveryCell, ReadError};
use crate::duplicates::DuplicatePosition;
use crate::listed::PAGE_BYTES_MAX;

/// In the order of duplicates, which they are listed together with.
macro_rules! listed {
    ($condition:literal) => {
        concat!(
            "
    SELECT flow, key, object, version, newest, newest_claim, fingerprint,
           CASE WHEN $7 THEN payload END, count, first_at, last_at, gate_id, claim_id, minute
      FROM stale_deliveries
     WHERE namespace_id = $1 AND (minute, gate_id, claim_id, 'order') < ($2, $3, $4, $5)",
            $condition,
            "
     ORDER BY minute DESC, gate_id DESC, claim_id DESC
     LIMIT $6"
        )
    };
}

pub(super) const ALL: &str = listed!("");
pub(super) const OF_KEY: &str = listed!(" AND key = $8");
pub(super) const BEHIND: &str = listed!(
    "
       AND newest_claim = (SELECT r.claim_id FROM runs r WHERE r.id = $8 AND r.namespace_id = $1)"
);

pub(super) const OF_KEY_BEHIND: &str = listed!(
    "
       AND key = $8
       AND newest_claim = (SELECT r.claim_id FROM runs r WHERE r.id = $9 AND r.namespace_id = $1)"
);

/// A delivery that came too late, as the API shows it.
#[derive(Clone, Debug)]
pub struct StaleView {
    /// The flow.
    pub flow: String,
    /// Its key.
    pub key: Vec<u8>,
    /// The object.
    pub object: String,
    /// Its version.
    pub version: String,
    /// The newest version that had been accepted.
    pub newest: String,
    /// The claim of the newest.
    pub newest_claim: ClaimId,
    /// The payload's fingerprint.
    pub fingerprint: Fingerprint,
    /// The payload, as JSON text.
    pub payload: Option<String>,
    /// How often it came.
    pub count: i64,
    /// When it first came.
    pub first_at: Timestamp,
    /// When it last came.
    pub last_at: Timestamp,
    gate: Uuid,
    claim: Uuid,
    minute: Timestamp,
}

impl StaleView {
    /// Its place in a list.
    pub fn position(&self) -> DuplicatePosition {
        DuplicatePosition {
            minute: self.minute,
            subject: self.gate,
            fingerprint: self.claim,
            stopped_by: "order".to_owned(),
        }
    }
}

/// Lists deliveries that came too late, those of the latest minute first, with or without their payloads: of a key, or
/// behind the delivery that made a run, where one is given. Says whether others were left because of [`PAGE_BYTES_MAX`].
pub async fn list_stale(
    cell: EveryCell<'_>,
    namespace_id: i32,
    (key, newest): (Option<&Key>, Option<RunId>),
    before: Option<&DuplicatePosition>,
    limit: u16,
    payloads: bool,
) -> Result<(Vec<StaleView>, bool), ReadError> {
    let key = key.map(Key::as_bytes);
    let newest = newest.map(|run| *run.as_uuid());
    let limit = i64::from(limit);
    let before = before.cloned().unwrap_or_default();
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&namespace_id];
    values.extend(before.values());
    values.extend([&limit as &(dyn ToSql + Sync), &payloads]);
    let text = match (&key, &newest) {
        (Some(key), Some(newest)) => {
            values.extend([key as &(dyn ToSql + Sync), newest]);
            OF_KEY_BEHIND
        }
        (Some(key), None) => {
            values.push(key);
            OF_KEY
        }
        (None, Some(newest)) => {
            values.push(newest);
            BEHIND
        }
        (None, None) => ALL,
    };
    let client = cell.reader().await?;
    let (rows, is_cut) = client.query_within(text, &values, PAGE_BYTES_MAX).await?;
    Ok((rows.iter().map(read_stale).collect(), is_cut))
}

fn read_stale(row: &Row) -> StaleView {
    StaleView {
        flow: row.get(0),
        key: row.get(1),
        object: row.get(2),
        version: row.get(3),
        newest: row.get(4),
        newest_claim: ClaimId::from_uuid(row.get(5)),
        fingerprint: Fingerprint::from_uuid(row.get(6)),
        payload: crate::runs::read_json(row, 7),
        count: row.get(8),
        first_at: row.get(9),
        last_at: row.get(10),
        gate: row.get(11),
        claim: row.get(12),
        minute: row.get(13),
    }
}
