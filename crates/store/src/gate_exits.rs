//! The `gate_exits` table: runs that have ended, and whose gates may not know yet.
//!
//! A row commits with the end of its run. The process that ended the run notifies the gates and
//! removes the row; if that process is gone, another one finds the row and notifies them again.

use semel_model::{GateId, RunId};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::cell::{Cell, EveryCell, ReadError};

/// A write that is submitted twice leaves one row.
pub(crate) const NOTE: &str = "
    INSERT INTO gate_exits AS d (run_id, gate_id, seq, at)
    SELECT t.run_id, t.gate_id, t.seq, (SELECT moment())
      FROM unnest($1::uuid[], $2::uuid[], $3::int4[]) AS t (run_id, gate_id, seq)
        ON CONFLICT (run_id, gate_id) DO UPDATE
       SET seq = EXCLUDED.seq, at = EXCLUDED.at
     WHERE d.seq < EXCLUDED.seq";

const REMOVE: &str = "
    DELETE FROM gate_exits d
     USING unnest($1::uuid[], $2::uuid[], $3::int4[]) AS t (run_id, gate_id, seq)
     WHERE d.run_id = t.run_id AND d.gate_id = t.gate_id AND d.seq = t.seq";

const OVERDUE: &str = "
    WITH late AS (
        SELECT run_id, gate_id
          FROM gate_exits
         WHERE at < (SELECT moment()) - interval '2 seconds'
         ORDER BY at
         LIMIT $1
           FOR UPDATE SKIP LOCKED)
    UPDATE gate_exits d
       SET at = moment()
      FROM late
     WHERE d.run_id = late.run_id AND d.gate_id = late.gate_id
 RETURNING d.run_id, d.gate_id, d.seq";

pub(crate) const STATEMENTS: &[&str] = &[NOTE, REMOVE, OVERDUE];

/// The most rows that one pass handles.
const OVERDUE_MAX: i64 = 256;

/// A run that leaves a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateExit {
    /// The run.
    pub run: RunId,
    /// The gate.
    pub gate: GateId,
    /// The row of the run's journal by which it ended.
    pub seq: i32,
}

/// Exits of a batch, by column.
#[derive(Default)]
pub(crate) struct Rows {
    runs: Vec<Uuid>,
    gates: Vec<Uuid>,
    seqs: Vec<i32>,
}

impl Rows {
    pub(crate) fn push(&mut self, exit: GateExit) {
        self.runs.push(*exit.run.as_uuid());
        self.gates.push(*exit.gate.as_uuid());
        self.seqs.push(exit.seq);
    }

    pub(crate) fn values(&self) -> Option<Vec<&(dyn ToSql + Sync)>> {
        (!self.runs.is_empty())
            .then(|| vec![&self.runs as &(dyn ToSql + Sync), &self.gates, &self.seqs])
    }
}

/// Removes exits whose gates were notified.
pub async fn remove(cell: EveryCell<'_>, told: &[GateExit]) -> Result<(), ReadError> {
    let mut rows = Rows::default();
    for exit in told {
        rows.push(*exit);
    }
    let client = cell.reader().await?;
    client
        .execute(REMOVE, &[&rows.runs, &rows.gates, &rows.seqs])
        .await?;
    Ok(())
}

/// Takes exits whose gates have not been notified for a while.
pub async fn take_overdue(cell: &Cell) -> Result<Vec<GateExit>, ReadError> {
    let client = cell.reader().await?;
    let rows = client.query(OVERDUE, &[&OVERDUE_MAX]).await?;
    let read = |row: &tokio_postgres::Row| GateExit {
        run: RunId::from_uuid(row.get(0)),
        gate: GateId::from_uuid(row.get(1)),
        seq: row.get(2),
    };
    Ok(rows.iter().map(read).collect())
}
