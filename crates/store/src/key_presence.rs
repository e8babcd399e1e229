//! Which kinds of things there are under a key: one statement, so that only those are read that exist.

use semel_model::storable::indexed;
use semel_model::{Key, RunId};
use serde_json::Value;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::cell::{EveryCell, ReadError};
use crate::kv;

// Crosses slots (V9): things of all slots are looked for. With a second cell, each cell is asked, and what
// one has is there.
const LOOK: &str = "
    SELECT EXISTS (SELECT 1 FROM child_runs
                    WHERE namespace_id = $1 AND hashtextextended(key, 0) = hashtextextended($3, 0)
                      AND key = $3),
           EXISTS (SELECT 1 FROM named_effects WHERE namespace_id = $1 AND key = $2),
           EXISTS (SELECT 1 FROM event_waits WHERE namespace_id = $1 AND value = ANY ($4)),
           EXISTS (SELECT 1 FROM stale_deliveries WHERE namespace_id = $1 AND key = $2),
           EXISTS (SELECT 1 FROM effects WHERE namespace_id = $1 AND external_id = $5),
           EXISTS (SELECT 1 FROM kv WHERE slot = $6 AND namespace_id = $1 AND entry = $3),
           EXISTS (SELECT 1 FROM waits WHERE run_id = ANY ($7)),
           EXISTS (SELECT 1
                     FROM unnest($7::uuid[], $8::uuid[], $9::uuid[]) AS r (id, low, high)
                    CROSS JOIN LATERAL (SELECT 1 FROM approvals a
                                         WHERE a.id BETWEEN r.low AND r.high AND a.run_id = r.id
                                         LIMIT 1) a),
           EXISTS (SELECT 1 FROM duplicates WHERE run_id = ANY ($7))";

pub(crate) const STATEMENTS: &[&str] = &[LOOK];

/// Which kinds of things there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyPresence {
    /// Items of lists.
    pub items: bool,
    /// Named effects.
    pub named_effects: bool,
    /// Waits for an event with this value.
    pub event_waits: bool,
    /// Deliveries that came too late.
    pub stale_deliveries: bool,
    /// Effects that a destination knows by this identifier.
    pub external_ids: bool,
    /// An entry of the key-value store.
    pub entry: bool,
    /// Waits of the runs.
    pub waits: bool,
    /// Approvals of the runs.
    pub approvals: bool,
    /// Duplicates of the runs.
    pub duplicates: bool,
}

/// Looks what there is under a key, and of its runs.
pub async fn look(
    cell: EveryCell<'_>,
    namespace_id: i32,
    (key, text): (&Key, &str),
    event_values: &[Value],
    runs: &[RunId],
) -> Result<KeyPresence, ReadError> {
    let values = event_values.iter().map(Value::to_string);
    let values: Vec<String> = values.map(|text| indexed(&text).into_owned()).collect();
    let external_id = indexed(text);
    let slot = kv::column(kv::slot(namespace_id, text));
    let ids: Vec<Uuid> = runs.iter().map(|run| *run.as_uuid()).collect();
    let (low, high): (Vec<Uuid>, Vec<Uuid>) = runs.iter().map(|run| run.wait_range()).unzip();
    let asked: [&(dyn ToSql + Sync); 9] = [
        &namespace_id,
        &key.as_bytes(),
        &text,
        &values,
        &external_id,
        &slot,
        &ids,
        &low,
        &high,
    ];
    let row = cell.reader().await?.query_one(LOOK, &asked).await?;
    Ok(KeyPresence {
        items: row.get(0),
        named_effects: row.get(1),
        event_waits: row.get(2),
        stale_deliveries: row.get(3),
        external_ids: row.get(4),
        entry: row.get(5),
        waits: row.get(6),
        approvals: row.get(7),
        duplicates: row.get(8),
    })
}
