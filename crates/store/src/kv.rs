//! The `kv` table: small state that the flows of a namespace share.
//!
//! An operation commits together with its own outcome: afterwards the journal is the marker. Most
//! operations have a result that is known before they are made, and travel with the next intent;
//! the others are made first, inside the same transaction, and their event follows.

use jiff::Timestamp;
use semel_model::effect::Witness;
use semel_model::event::Event;
use semel_model::json::{self, same};
use semel_model::kv::{Operation, Verb};
use semel_model::{Fault, Slot};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio_postgres::types::{Json, ToSql};
use tokio_postgres::{Error, Row};

use crate::cell::{Cell, ReadError};
use crate::journal::Transition;
use crate::link::Ready;
use crate::locks;

/// The part of a flight that sets entries.
pub(crate) const SET: &str = ",
    stored AS (
        INSERT INTO kv (slot, namespace_id, entry, value, expires_at)
        SELECT t.slot, t.namespace_id, t.entry, t.value::json,
               (SELECT now FROM present) + make_interval(secs => t.ttl_secs)
          FROM unnest($?::int2[], $?::int4[], $?::text[], $?::text[], $?::float8[])
            AS t (slot, namespace_id, entry, value, ttl_secs)
         ORDER BY t.slot, t.namespace_id, t.entry
            ON CONFLICT (slot, namespace_id, entry) DO UPDATE
           SET value = EXCLUDED.value, expires_at = EXCLUDED.expires_at, version = kv.version + 1)";

pub(crate) const DELETE: &str = "
    DELETE FROM kv
     USING unnest($1::int2[], $2::int4[], $3::text[]) AS t (slot, namespace_id, entry)
     WHERE kv.slot = t.slot AND kv.namespace_id = t.namespace_id AND kv.entry = t.entry";

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

pub(crate) const STATEMENTS: &[&str] = &[DELETE, ADD, SET_IF_ABSENT, HOLD, SET_HELD, READ];

/// The largest amount that one operation may add.
pub const ADD_MAX: i64 = 1 << 50;

/// An operation that a transition carries.
#[derive(Clone, Debug)]
pub struct Write {
    /// The step that asks for it.
    pub step: String,
    /// What is done.
    pub operation: Operation,
    /// When a lock that another run has is asked for again; never, when absent.
    pub retry_at: Option<Timestamp>,
}

/// Operations of a batch whose result is known before they are made.
#[derive(Default)]
pub(crate) struct Rows<'a> {
    slots: Vec<i16>,
    namespaces: Vec<i32>,
    entries: Vec<&'a str>,
    values: Vec<String>,
    ttls: Vec<Option<f64>>,
}

impl Rows<'_> {
    pub(crate) fn set_values(&self) -> Option<Vec<&(dyn ToSql + Sync)>> {
        (!self.slots.is_empty()).then(|| {
            vec![
                &self.slots as &(dyn ToSql + Sync),
                &self.namespaces,
                &self.entries,
                &self.values,
                &self.ttls,
            ]
        })
    }

    pub(crate) fn delete_values(&self) -> Option<Vec<&(dyn ToSql + Sync)>> {
        (!self.slots.is_empty()).then(|| {
            vec![
                &self.slots as &(dyn ToSql + Sync),
                &self.namespaces,
                &self.entries,
            ]
        })
    }
}

/// Whether an operation sets an entry whatever it holds.
pub(crate) fn is_plain_set(write: &Write) -> bool {
    let verb = &write.operation.verb;
    matches!(
        verb,
        Verb::Set {
            if_absent: false,
            expect: None,
            ..
        }
    )
}

/// Puts an operation with a foreseen result into its columns.
pub(crate) fn sort<'a>(
    namespace_id: i32,
    write: &'a Write,
    sets: &mut Rows<'a>,
    deletes: &mut Rows<'a>,
) {
    let Operation { entry, verb } = &write.operation;
    let rows = match verb {
        Verb::Set {
            value,
            if_absent: false,
            expect: None,
            ttl,
        } => {
            sets.values.push(value.to_string());
            sets.ttls.push(ttl.map(seconds));
            sets
        }
        Verb::Delete => deletes,
        Verb::Get | Verb::Set { .. } | Verb::Add { .. } | Verb::Lock { .. } | Verb::Unlock => {
            return;
        }
    };
    rows.slots.push(slot(namespace_id, entry));
    rows.namespaces.push(namespace_id);
    rows.entries.push(entry);
}

/// The transitions whose operation must be made before its event can be written.
pub(crate) fn unforeseen<'a>(batch: &[&'a Transition]) -> Vec<&'a Transition> {
    let waits = |item: &&&Transition| {
        item.kv
            .as_ref()
            .is_some_and(|write| write.operation.verb.foreseen_result().is_none())
    };
    batch.iter().filter(waits).copied().collect()
}

/// Makes one operation inside the open transaction, and tells it as an event.
pub(crate) async fn perform(ready: Ready<'_>, item: &Transition) -> Result<Event, Error> {
    let Some(Write {
        step,
        operation: Operation { entry, verb },
        retry_at,
    }) = &item.kv
    else {
        unreachable!("only transitions with an operation come here");
    };
    let slot = slot(item.namespace_id, entry);
    let namespace = &item.namespace_id;
    let client = ready.client;
    let outcome = match verb {
        Verb::Add { by, ttl } => {
            let ttl = ttl.map(seconds);
            let values: [&(dyn ToSql + Sync); 5] = [&slot, namespace, entry, by, &ttl];
            let row = client.query_opt(ready.statement(ADD), &values).await?;
            row.map(|row| json!(row.get::<_, i64>(0))).ok_or_else(|| {
                Fault::permanent("kv-not-a-number", format!("{entry} holds no whole number"))
            })
        }
        Verb::Set {
            value, ttl, expect, ..
        } => {
            let ttl = ttl.map(seconds);
            let value = Json(value);
            let values: [&(dyn ToSql + Sync); 5] = [&slot, namespace, entry, &value, &ttl];
            let place: [&(dyn ToSql + Sync); 3] = [&slot, namespace, entry];
            let text = match expect.as_ref().filter(|expect| !expect.is_null()) {
                Some(expected) => {
                    let row = client.query_opt(ready.statement(HOLD), &place).await?;
                    let is_there = |row: Row| same(&read_value(&row), expected);
                    row.is_some_and(is_there).then_some(SET_HELD)
                }
                // Nothing is expected, so nothing may be there.
                None => Some(SET_IF_ABSENT),
            };
            let set = match text {
                Some(text) => client.query_opt(ready.statement(text), &values).await?,
                None => None,
            };
            let row = client.query_opt(ready.statement(READ), &place).await?;
            let held = row.map_or(Value::Null, |row| read_value(&row));
            Ok(json!({ "set": set.is_some(), "value": held }))
        }
        Verb::Lock { lease } => {
            let (run, lease) = (item.run.as_uuid(), seconds(*lease));
            let values: [&(dyn ToSql + Sync); 5] = [&slot, namespace, entry, run, &lease];
            let row = client
                .query_opt(ready.statement(locks::TAKE), &values)
                .await?;
            row.map(|row| locks::describe(&row))
                .ok_or_else(|| locks::held(entry))
        }
        Verb::Unlock => {
            let values: [&(dyn ToSql + Sync); 4] = [&slot, namespace, entry, item.run.as_uuid()];
            let row = client
                .query_opt(ready.statement(locks::RELEASE), &values)
                .await?;
            Ok(json!({ "released": row.is_some() }))
        }
        Verb::Get | Verb::Delete => Ok(Value::Null),
    };
    let step = step.clone();
    Ok(match outcome {
        Ok(result) => Event::Done {
            step,
            by: Witness::Commit,
            external_id: None,
            status: None,
            result,
        },
        Err(fault) => Event::Failed {
            step,
            retry_at: retry_at.filter(|_| fault.retryable),
            fault,
        },
    })
}

/// Reads an entry; null when there is none.
pub async fn get(cell: &Cell, namespace_id: i32, entry: &str) -> Result<Value, ReadError> {
    let slot = slot(namespace_id, entry);
    let client = cell.reader().await?;
    let statement = client.prepare_cached(READ).await?;
    let row = client
        .query_opt(&statement, &[&slot, &namespace_id, &entry])
        .await?;
    Ok(row.map_or(Value::Null, |row| read_value(&row)))
}

/// The value of an entry. One that nests too deep to be read is told as its text.
fn read_value(row: &Row) -> Value {
    json::read_back(row.get::<_, Json<Box<RawValue>>>(0).0.get())
}

/// The slot of an entry or a lock.
pub(crate) fn slot(namespace_id: i32, entry: &str) -> i16 {
    let mut hasher = Sha256::new();
    hasher.update(namespace_id.to_be_bytes());
    hasher.update(entry.as_bytes());
    let full = hasher.finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&full[..16]);
    Slot::of(&bytes).number() as i16
}

fn seconds(span: semel_model::Span) -> f64 {
    span.as_millis() as f64 / 1e3
}
