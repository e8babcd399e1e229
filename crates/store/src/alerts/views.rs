//! Groups and their latest messages, as an operator sees them.

use jiff::Timestamp;
use semel_model::{AlertGroup, EffectId, RunId};
use tokio_postgres::Row;
use uuid::Uuid;

use super::groups::read_group;
use crate::cell::{HomeCell, ReadError};

const LIST: &str = "
    SELECT g.namespace_id, g.kind::text, g.flow, g.connection, g.step, g.total, g.waiting,
           g.waiting_since, g.example, g.due_at, g.failures, g.last_at, m.id, m.count,
           m.state::text, m.note, m.intended_at, m.settled_at
      FROM alert_groups g
      LEFT JOIN LATERAL (
           SELECT id, count, state, note, intended_at, settled_at
             FROM alert_messages
            WHERE namespace_id = g.namespace_id AND kind = g.kind AND flow = g.flow
              AND connection = g.connection AND step = g.step
            ORDER BY period_start DESC LIMIT 1) AS m ON true
     WHERE g.namespace_id = $1
     ORDER BY g.last_at DESC
     LIMIT $2";

pub(super) const STATEMENTS: &[&str] = &[LIST];

/// A group of alerts.
#[derive(Clone, Debug)]
pub struct AlertGroupView {
    /// The group.
    pub group: AlertGroup,
    /// How often it happened.
    pub total: i64,
    /// How often it happened since the last message that was delivered or is on its way.
    pub waiting: i64,
    /// When the first of those happened.
    pub waiting_since: Option<Timestamp>,
    /// A run that it happened to.
    pub example: Option<RunId>,
    /// When the next message leaves.
    pub due_at: Option<Timestamp>,
    /// How many of the latest messages in a row were not delivered.
    pub failures: i32,
    /// When it happened last.
    pub last_at: Timestamp,
    /// The latest message.
    pub message: Option<AlertMessageView>,
}

/// A message of a group.
#[derive(Clone, Debug)]
pub struct AlertMessageView {
    /// Its key.
    pub key: EffectId,
    /// How much it counts.
    pub count: i64,
    /// Its state: `due`, `sending`, `done`, `failed` or `in_doubt`.
    pub state: String,
    /// What was seen, if it was not delivered.
    pub note: Option<String>,
    /// When it was written.
    pub intended_at: Timestamp,
    /// When its outcome was recorded.
    pub settled_at: Option<Timestamp>,
}

/// The groups of a namespace, those in which something happened last first.
pub async fn list_groups(
    cell: HomeCell<'_>,
    namespace_id: i32,
    limit: u16,
) -> Result<Vec<AlertGroupView>, ReadError> {
    let client = cell.reader().await?;
    let rows = client
        .query(LIST, &[&namespace_id, &i64::from(limit)])
        .await?;
    Ok(rows.iter().filter_map(read_view).collect())
}

fn read_view(row: &Row) -> Option<AlertGroupView> {
    let message = row.get::<_, Option<Uuid>>(12).map(|id| AlertMessageView {
        key: EffectId::from_uuid(id),
        count: row.get(13),
        state: row.get(14),
        note: row.get(15),
        intended_at: row.get(16),
        settled_at: row.get(17),
    });
    Some(AlertGroupView {
        group: read_group(row)?,
        total: row.get(5),
        waiting: row.get(6),
        waiting_since: row.get(7),
        example: row.get::<_, Option<Uuid>>(8).map(RunId::from_uuid),
        due_at: row.get(9),
        failures: row.get(10),
        last_at: row.get(11),
        message,
    })
}
