//! Pauses as the API shows them.

use jiff::Timestamp;
use semel_model::RunId;
use tokio_postgres::Row;

use super::PauseKind;
use crate::cell::{HomeCell, ReadError, SlotCell};

const OPEN: &str = "
    SELECT p.id, p.kind, p.name, p.reason, p.actor, p.paused_at,
           (SELECT count(*) FROM (SELECT 1 FROM paused_runs r WHERE r.pause_id = p.id LIMIT 100000) r)
      FROM pauses p
     WHERE p.resumed_at IS NULL AND p.namespace_id = $1
     ORDER BY p.kind DESC, p.name
     LIMIT 1000";

const OF_RUN: &str = "
    SELECT p.id, p.kind, p.name, p.reason, p.actor, p.paused_at, 0::int8
      FROM paused_runs r
      JOIN pauses p ON p.id = r.pause_id
     WHERE r.run_id = $1 AND p.resumed_at IS NULL";

pub(crate) const STATEMENTS: &[&str] = &[OPEN, OF_RUN];

/// A pause that is not over.
#[derive(Clone, Debug)]
pub struct PauseView {
    /// The pause.
    pub id: i64,
    /// What is paused.
    pub kind: PauseKind,
    /// Its name.
    pub name: String,
    /// The operator's reason.
    pub reason: String,
    /// Who paused it.
    pub actor: String,
    /// When.
    pub paused_at: Timestamp,
    /// How many runs sleep for it.
    pub held_count: i64,
}

/// Lists what is paused in a namespace.
pub async fn list_open(cell: HomeCell<'_>, namespace_id: i32) -> Result<Vec<PauseView>, ReadError> {
    let rows = cell.reader().await?.query(OPEN, &[&namespace_id]).await?;
    Ok(rows.iter().map(read).collect())
}

/// The pause that a run sleeps for.
pub async fn find_of_run(cell: SlotCell<'_>, run: RunId) -> Result<Option<PauseView>, ReadError> {
    let client = cell.reader().await?;
    let row = client.query_opt(OF_RUN, &[run.as_uuid()]).await?;
    Ok(row.as_ref().map(read))
}

fn read(row: &Row) -> PauseView {
    PauseView {
        id: row.get(0),
        kind: PauseKind::read(row.get(1)),
        name: row.get(2),
        reason: row.get(3),
        actor: row.get(4),
        paused_at: row.get(5),
        held_count: row.get(6),
    }
}
