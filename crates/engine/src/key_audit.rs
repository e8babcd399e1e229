//! Auditing keys: what real traffic shows about whether a flow's key is right.
//!
//! Three signs. One key with different payloads: the key merges different work, or the payload
//! has a field that changes with each delivery. One payload under different keys: the key changes
//! between deliveries of the same work. A key that comes again long after its source stopped
//! redelivering: the key names something that comes back, such as a customer.

use std::collections::HashMap;

use semel_model::event::Event;
use semel_model::{FlowName, Key, Span};
use semel_store::key_audit::{self, Differing, LateRepeats, SharedPayloads};
use semel_store::{EveryCell, ReadError};
use serde_json::Value;

mod diff;

use diff::differing_paths;

/// How many fields are reported.
const FIELDS_MAX: usize = 20;

/// How many different fields are counted; what comes beyond them is not.
const FIELDS_COUNTED_MAX: usize = 10_000;

/// What an audit found.
#[derive(Clone, Debug)]
pub struct KeyAudit {
    /// Recorded deliveries, first ones and repeats.
    pub deliveries: i64,
    /// Different keys.
    pub keys: i64,
    /// One key, different payloads.
    pub differing: Differences,
    /// One payload, different keys.
    pub shared: SharedPayloads,
    /// Keys that came again after the window.
    pub late: LateRepeats,
}

/// One key, different payloads.
#[derive(Clone, Debug, Default)]
pub struct Differences {
    /// Payloads that differ from the first of their key.
    pub payloads: i64,
    /// Deliveries that brought them.
    pub deliveries: i64,
    /// In which fields, most frequent first.
    pub fields: Vec<Field>,
}

/// A field that differs.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its path; a list's elements are `[]`.
    pub path: String,
    /// In how many deliveries.
    pub deliveries: i64,
    /// A key that shows it.
    pub example: Key,
}

/// Reads everything that is recorded of a flow. Nothing when there is no such flow.
pub async fn audit_keys(
    cell: EveryCell<'_>,
    namespace_id: i32,
    flow: &FlowName,
    window: Span,
) -> Result<Option<KeyAudit>, ReadError> {
    let mut tally = Tally::default();
    let found = key_audit::read(cell, namespace_id, flow, window, |one| tally.add(one)).await?;
    Ok(found.map(|traffic| KeyAudit {
        deliveries: traffic.runs + traffic.repeats,
        keys: traffic.runs,
        differing: tally.finish(),
        shared: traffic.shared,
        late: traffic.late,
    }))
}

/// Counts fields that differ, in memory that does not grow with the number of deliveries.
#[derive(Default)]
struct Tally {
    payloads: i64,
    deliveries: i64,
    fields: HashMap<String, (i64, Key)>,
}

impl Tally {
    fn add(&mut self, one: Differing) {
        let Some((first, other)) = read_both(&one) else {
            return;
        };
        self.payloads += 1;
        self.deliveries += one.count;
        for path in differing_paths(&first, &other) {
            if let Some((count, _)) = self.fields.get_mut(&path) {
                *count += one.count;
            } else if self.fields.len() < FIELDS_COUNTED_MAX {
                self.fields.insert(path, (one.count, one.key.clone()));
            }
        }
    }

    fn finish(self) -> Differences {
        let mut fields: Vec<Field> = self
            .fields
            .into_iter()
            .map(|(path, (deliveries, example))| Field {
                path,
                deliveries,
                example,
            })
            .collect();
        fields.sort_by(|a, b| b.deliveries.cmp(&a.deliveries).then(a.path.cmp(&b.path)));
        fields.truncate(FIELDS_MAX);
        Differences {
            payloads: self.payloads,
            deliveries: self.deliveries,
            fields,
        }
    }
}

/// The first payload of a key and a later one.
fn read_both(one: &Differing) -> Option<(Value, Value)> {
    let events: Vec<Event> = serde_json::from_str(&one.first_row).ok()?;
    let Some(Event::Accepted { input: first, .. }) = events.into_iter().next() else {
        return None;
    };
    Some((first, serde_json::from_str(&one.payload).ok()?))
}
