//! The `kv` table: small state that the flows of a namespace share.
//!
//! An operation commits together with its own outcome: afterwards the journal is the marker. Most
//! operations have a result that is known before they are made, and travel with the next write, several
//! sets together, of which the last one of an entry counts; the others are made first, inside the same
//! transaction, and their event follows. Additions of several runs to one entry are made as one.
//!
//! A transaction touches entries and locks in one order, that of `place`, whatever the operations
//! are: two batches that share entries wait for each other and never deadlock.

mod adds;
mod gathered;
mod task;
mod views;

pub(crate) use adds::ADD_TOGETHER;
pub use gathered::GatheredEntries;
pub(crate) use task::{Performed, Task, tasks};
pub use views::{EntryView, ListedUntil, find, list};

use std::collections::HashSet;

use jiff::Timestamp;
use semel_model::Slot;
use semel_model::json;
use semel_model::kv::{Operation, Verb};
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use tokio_postgres::Row;
use tokio_postgres::types::Json;

use crate::cell::{ReadError, SlotCell};
use crate::journal::Transition;
use crate::writer::rows::Column;

/// The part of a batch's statement that sets entries.
pub(crate) const SET: &str = ",
    stored AS (
        INSERT INTO kv (slot, namespace_id, entry, value, version, expires_at)
        SELECT t.slot, t.namespace_id, t.entry, t.value::json, t.set_count,
               (SELECT now FROM present) + make_interval(secs => t.ttl_secs)
          FROM unnest($?::int2[], $?::int4[], $?::text[], $?::text[], $?::int8[], $?::float8[])
            AS t (slot, namespace_id, entry, value, set_count, ttl_secs)
         ORDER BY t.slot, t.namespace_id, t.entry COLLATE \"C\"
            ON CONFLICT (slot, namespace_id, entry) DO UPDATE
           SET value = EXCLUDED.value, expires_at = EXCLUDED.expires_at,
               version = kv.version + EXCLUDED.version)";

/// Sets one entry, in a batch whose operations are made one after the other.
pub(crate) const SET_ONE: &str = "
    INSERT INTO kv (slot, namespace_id, entry, value, expires_at, version)
    VALUES ($1, $2, $3, $4, moment() + make_interval(secs => $5), $6)
        ON CONFLICT (slot, namespace_id, entry) DO UPDATE
       SET value = EXCLUDED.value, expires_at = EXCLUDED.expires_at, version = kv.version + EXCLUDED.version";

pub(crate) const DELETE: &str = "
    DELETE FROM kv WHERE slot = $1 AND namespace_id = $2 AND entry = $3";

/// An entry that is no whole number of up to fifteen digits is left alone, and nothing returns.
pub(crate) const ADD: &str = "
    INSERT INTO kv (slot, namespace_id, entry, value, expires_at)
    VALUES ($1, $2, $3, to_json($4::int8), moment() + make_interval(secs => $5))
        ON CONFLICT (slot, namespace_id, entry) DO UPDATE
       SET value = CASE WHEN kv.expires_at <= moment() THEN EXCLUDED.value
                        ELSE to_json(kv.value::text::int8 + $4) END,
           expires_at = EXCLUDED.expires_at, version = kv.version + 1
     WHERE kv.expires_at <= moment() OR kv.value::text ~ '^-?[0-9]{1,15}$'
 RETURNING value::text::int8";

pub(crate) const SET_IF_ABSENT: &str = "
    INSERT INTO kv (slot, namespace_id, entry, value, expires_at)
    VALUES ($1, $2, $3, $4, moment() + make_interval(secs => $5))
        ON CONFLICT (slot, namespace_id, entry) DO UPDATE
       SET value = EXCLUDED.value, expires_at = EXCLUDED.expires_at, version = kv.version + 1
     WHERE kv.expires_at <= moment()
 RETURNING 1";

/// What is there, held until the commit. It is compared here and not there: `jsonb` does not take
/// every value that `json` keeps.
pub(crate) const HOLD: &str = "
    SELECT value FROM kv
     WHERE slot = $1 AND namespace_id = $2 AND entry = $3
       AND (expires_at IS NULL OR expires_at > moment())
       FOR UPDATE";

/// Sets an entry that is held.
pub(crate) const SET_HELD: &str = "
    UPDATE kv
       SET value = $4, expires_at = moment() + make_interval(secs => $5), version = version + 1
     WHERE slot = $1 AND namespace_id = $2 AND entry = $3
 RETURNING 1";

pub(crate) const READ: &str = "
    SELECT value FROM kv
     WHERE slot = $1 AND namespace_id = $2 AND entry = $3
       AND (expires_at IS NULL OR expires_at > moment())";

pub(crate) const STATEMENTS: &[&str] = &[
    SET_ONE,
    DELETE,
    ADD,
    ADD_TOGETHER,
    SET_IF_ABSENT,
    HOLD,
    SET_HELD,
    READ,
];

pub(crate) const VIEWS: &[&str] = views::STATEMENTS;

/// An operation that a transition carries.
#[derive(Clone, Debug)]
pub struct Write {
    /// The step that asks for it.
    pub step: String,
    /// What is done.
    pub operation: Operation,
    /// When a lock that another run has is asked for again; never, when absent.
    pub retry_at: Option<Timestamp>,
    /// How many sets of the entry it stands for: those before it are never seen, and counted in the
    /// entry's version.
    pub set_count: i64,
}

/// Entries that the statement of a batch sets.
#[derive(Default)]
pub(crate) struct Rows<'a> {
    slots: Vec<i16>,
    namespaces: Vec<i32>,
    entries: Vec<&'a str>,
    values: Vec<String>,
    set_counts: Vec<i64>,
    ttls: Vec<Option<f64>>,
}

impl Rows<'_> {
    pub(crate) fn set_columns(&self) -> Option<Vec<&dyn Column>> {
        (!self.slots.is_empty()).then(|| {
            vec![
                &self.slots as &dyn Column,
                &self.namespaces,
                &self.entries,
                &self.values,
                &self.set_counts,
                &self.ttls,
            ]
        })
    }
}

/// Whether an operation sets an entry whatever it holds.
pub(crate) fn is_plain_set(write: &Write) -> bool {
    write.operation.verb.is_plain_set()
}

/// An operation of a batch, and the transition that carries it.
#[derive(Clone, Copy)]
pub(crate) struct Placed<'a> {
    pub(crate) item: &'a Transition,
    write: &'a Write,
}

impl<'a> Placed<'a> {
    /// The operations of a batch, in its order.
    fn all(batch: &[&'a Transition]) -> impl Iterator<Item = Self> {
        let of = |item: &'a Transition| item.kv.iter().map(move |write| Self { item, write });
        batch.iter().flat_map(move |item| of(item))
    }

    /// Where it stands in the one order in which entries and locks are touched.
    fn place(&self) -> (i16, i32, &'a str, bool) {
        let Operation { entry, verb } = &self.write.operation;
        let slot = column(slot(self.item.namespace_id, entry));
        // A lock and an entry of one name are rows of two tables.
        let is_lock = matches!(verb, Verb::Lock { .. } | Verb::Unlock);
        (slot, self.item.namespace_id, entry, is_lock)
    }
}

/// The columns of a batch whose operations are plain sets alone.
pub(crate) fn rows<'a>(batch: &[&'a Transition]) -> Rows<'a> {
    let mut rows = Rows::default();
    for Placed { item, write } in Placed::all(batch) {
        if let Operation {
            entry,
            verb:
                Verb::Set {
                    value,
                    if_absent: false,
                    expect: None,
                    ttl,
                },
        } = &write.operation
        {
            let slot = slot(item.namespace_id, entry);
            rows.slots.push(column(slot));
            rows.namespaces.push(item.namespace_id);
            rows.entries.push(entry);
            rows.values.push(value.to_string());
            rows.set_counts.push(write.set_count);
            rows.ttls.push(ttl.map(semel_model::Span::as_secs_f64));
        }
    }
    rows
}

/// The operations of a batch, in the order in which they are made ahead of its statement; those on
/// one entry in the order of the batch. There are none if all are plain sets of entries of their
/// own, which the statement makes itself, in the same order.
pub(crate) fn in_order<'a>(batch: &[&'a Transition]) -> Vec<Placed<'a>> {
    let mut ordered: Vec<Placed<'a>> = Placed::all(batch).collect();
    let mut entries = HashSet::with_capacity(ordered.len());
    let is_plain = |placed: &Placed<'a>| {
        let entry = placed.write.operation.entry.as_str();
        is_plain_set(placed.write) && entries.insert((placed.item.namespace_id, entry))
    };
    if ordered.iter().all(is_plain) {
        return Vec::new();
    }
    ordered.sort_by_cached_key(Placed::place);
    ordered
}

/// Reads an entry; null when there is none.
pub async fn get(cell: SlotCell<'_>, namespace_id: i32, entry: &str) -> Result<Value, ReadError> {
    let slot = column(slot(namespace_id, entry));
    let client = cell.reader().await?;
    let row = client
        .query_opt(READ, &[&slot, &namespace_id, &entry])
        .await?;
    Ok(row.map_or(Value::Null, |row| read_value(&row)))
}

/// The value of an entry. One that nests too deep to be read is returned as its text.
fn read_value(row: &Row) -> Value {
    json::read_back(row.get::<_, Json<Box<RawValue>>>(0).0.get())
}

/// The slot of an entry or a lock.
pub fn slot(namespace_id: i32, entry: &str) -> Slot {
    let mut hasher = Sha256::new();
    hasher.update(namespace_id.to_be_bytes());
    hasher.update(entry.as_bytes());
    let full = hasher.finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&full[..16]);
    Slot::of(&bytes)
}

pub(crate) fn column(slot: Slot) -> i16 {
    slot.number() as i16
}
