//! The `departures` table: runs that have ended, and whose gates may not know yet.
//!
//! A row commits with the end of its run. Whoever ended the run tells the gates and removes the row;
//! where that process is gone, another one finds the row and tells them again.

use semel_model::{GateId, RunId};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::cell::{Cell, ReadError};

/// A write that is submitted twice notes once.
pub(crate) const NOTE: &str = "
    INSERT INTO departures (run_id, gate_id, at)
    SELECT t.run_id, t.gate_id, (SELECT moment())
      FROM unnest($1::uuid[], $2::uuid[]) AS t (run_id, gate_id)
        ON CONFLICT (run_id, gate_id) DO NOTHING";

const REMOVE: &str = "
    DELETE FROM departures d
     USING unnest($1::uuid[], $2::uuid[]) AS t (run_id, gate_id)
     WHERE d.run_id = t.run_id AND d.gate_id = t.gate_id";

const OVERDUE: &str = "
    WITH late AS (
        SELECT run_id, gate_id
          FROM departures
         WHERE at < moment() - interval '2 seconds'
         ORDER BY at
         LIMIT $1
           FOR UPDATE SKIP LOCKED)
    UPDATE departures d
       SET at = moment()
      FROM late
     WHERE d.run_id = late.run_id AND d.gate_id = late.gate_id
 RETURNING d.run_id, d.gate_id";

pub(crate) const STATEMENTS: &[&str] = &[NOTE, REMOVE, OVERDUE];

/// The most that are looked after in one go.
const OVERDUE_MAX: i64 = 256;

/// A run that leaves a gate.
pub type Departure = (RunId, GateId);

/// Departures of a batch, by column.
#[derive(Default)]
pub(crate) struct Rows {
    runs: Vec<Uuid>,
    gates: Vec<Uuid>,
}

impl Rows {
    pub(crate) fn push(&mut self, run: RunId, gate: GateId) {
        self.runs.push(*run.as_uuid());
        self.gates.push(*gate.as_uuid());
    }

    pub(crate) fn values(&self) -> Option<Vec<&(dyn ToSql + Sync)>> {
        (!self.runs.is_empty()).then(|| vec![&self.runs as &(dyn ToSql + Sync), &self.gates])
    }
}

/// Removes departures whose gates were told.
pub async fn remove(cell: &Cell, told: &[Departure]) -> Result<(), ReadError> {
    let mut rows = Rows::default();
    for (run, gate) in told {
        rows.push(*run, *gate);
    }
    let client = cell.reader().await?;
    let statement = client.prepare_cached(REMOVE).await?;
    client
        .execute(&statement, &[&rows.runs, &rows.gates])
        .await?;
    Ok(())
}

/// Takes departures that nobody told the gates of for a while.
pub async fn take_overdue(cell: &Cell) -> Result<Vec<Departure>, ReadError> {
    let client = cell.reader().await?;
    let statement = client.prepare_cached(OVERDUE).await?;
    let rows = client.query(&statement, &[&OVERDUE_MAX]).await?;
    let read = |row: &tokio_postgres::Row| {
        let run = RunId::from_uuid(row.get(0));
        (run, GateId::from_uuid(row.get(1)))
    };
    Ok(rows.iter().map(read).collect())
}
