//! Entries as operators see them.

use jiff::Timestamp;
use semel_model::json;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio_postgres::types::{Json, ToSql};

use super::{column, slot};
use crate::cell::{EveryCell, ReadError, SlotCell};

/// In the order of the primary key, which needs no second index. Entries that are not wanted are
/// returned too: a page ends after so many entries, whatever they are called.
const LIST: &str = "
    SELECT slot::int4, entry, version, expires_at,
           starts_with(entry, $4) AND (expires_at IS NULL OR expires_at > (SELECT moment()))
      FROM kv
     WHERE namespace_id = $2 AND (slot, entry) > ($1::int4::int2, $3)
     ORDER BY slot, entry
     LIMIT $5";

const FIND: &str = "
    SELECT value, version, expires_at FROM kv
     WHERE slot = $1 AND namespace_id = $2 AND entry = $3
       AND (expires_at IS NULL OR expires_at > moment())";

pub(super) const STATEMENTS: &[&str] = &[LIST, FIND];

/// How many entries one read of a list looks at.
const LOOK_MAX: i64 = 1_000;

/// An entry.
#[derive(Clone, Debug, PartialEq)]
pub struct EntryView {
    /// Its name.
    pub entry: String,
    /// Its value, where it was asked for.
    pub value: Option<Value>,
    /// Grows with every write.
    pub version: i64,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
}

/// Where a list stands: behind the entry of this name in its slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedUntil {
    /// The slot's number.
    pub slot: u16,
    /// The last entry that was looked at; empty for the first.
    pub entry: String,
}

/// Looks at so many entries of a namespace, and returns those whose name begins with `prefix`, without
/// their values; and where the next read begins, unless this was the last.
pub async fn list(
    cell: EveryCell<'_>,
    namespace_id: i32,
    prefix: &str,
    after: &ListedUntil,
) -> Result<(Vec<EntryView>, Option<ListedUntil>), ReadError> {
    let from = i32::from(after.slot);
    let values: [&(dyn ToSql + Sync); 5] = [&from, &namespace_id, &after.entry, &prefix, &LOOK_MAX];
    let rows = cell.reader().await?.query(LIST, &values).await?;
    let full = rows.len() as i64 == LOOK_MAX;
    let last = rows.last().filter(|_| full).map(|row| ListedUntil {
        slot: u16::try_from(row.get::<_, i32>(0)).unwrap_or_default(),
        entry: row.get(1),
    });
    let wanted = rows.iter().filter(|row| row.get(4));
    let entries = wanted.map(|row| EntryView {
        entry: row.get(1),
        value: None,
        version: row.get(2),
        expires_at: row.get(3),
    });
    Ok((entries.collect(), last))
}

/// Looks an entry up.
pub async fn find(
    cell: SlotCell<'_>,
    namespace_id: i32,
    entry: &str,
) -> Result<Option<EntryView>, ReadError> {
    let slot = column(slot(namespace_id, entry));
    let client = cell.reader().await?;
    let row = client
        .query_opt(FIND, &[&slot, &namespace_id, &entry])
        .await?;
    Ok(row.map(|row| EntryView {
        entry: entry.to_owned(),
        value: Some(json::read_back(
            row.get::<_, Json<Box<RawValue>>>(0).0.get(),
        )),
        version: row.get(1),
        expires_at: row.get(2),
    }))
}
