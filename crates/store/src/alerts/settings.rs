//! Where the alerts of a namespace go.

use jiff::Timestamp;
use tokio_postgres::types::ToSql;

use crate::audit::{self, AuditEntry};
use crate::cell::{HomeCell, ReadError};

/// What failed over the former destination, or was not tried yet, is due over this one.
const SET: &str = "
    WITH again AS (
        UPDATE alert_groups
           SET failures = 0,
               due_at = CASE WHEN waiting > 0 THEN coalesce(due_at, greatest(quiet_until, moment())) ELSE due_at END
         WHERE namespace_id = $1 AND failures > 0),
         waiting AS (
        UPDATE alert_messages SET destination = $2, recipients = $3
         WHERE namespace_id = $1 AND state = 'due')
    INSERT INTO alert_settings (namespace_id, connection, recipients, set_by) VALUES ($1, $2, $3, $4)
        ON CONFLICT (namespace_id) DO UPDATE
       SET connection = EXCLUDED.connection, recipients = EXCLUDED.recipients,
           set_at = moment(), set_by = EXCLUDED.set_by";

const ENSURE_PRINTED: &str = "
    INSERT INTO alert_settings (namespace_id, set_by) VALUES ($1, $2)
        ON CONFLICT (namespace_id) DO NOTHING";

const UNSET: &str = "
    WITH gone AS (DELETE FROM alert_settings WHERE namespace_id = $1 RETURNING namespace_id),
    events AS (DELETE FROM alert_events e USING gone WHERE e.namespace_id = gone.namespace_id),
    groups AS (DELETE FROM alert_groups g USING gone WHERE g.namespace_id = gone.namespace_id),
    messages AS (DELETE FROM alert_messages m USING gone
                  WHERE m.namespace_id = gone.namespace_id AND m.state = 'due')
    SELECT namespace_id FROM gone";

const FIND: &str = "
    SELECT s.connection, s.recipients, s.set_at, s.set_by,
           s.connection IS NULL OR EXISTS (SELECT 1 FROM connections c
                                            WHERE c.namespace_id = s.namespace_id AND c.name = s.connection)
      FROM alert_settings s
     WHERE s.namespace_id = $1";

pub(super) const STATEMENTS: &[&str] = &[SET, ENSURE_PRINTED, UNSET, FIND];

/// Where alerts go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertSetting {
    /// The connection; nothing if messages are only printed to the log.
    pub connection: Option<String>,
    /// Whom messages go to there.
    pub recipients: Vec<String>,
    /// When it was set.
    pub set_at: Timestamp,
    /// Who set it.
    pub set_by: String,
    /// Whether the connection exists.
    pub connection_exists: bool,
}

/// Sets where the alerts of a namespace go. Here and below, the act is recorded in the same commit.
pub async fn set(
    cell: HomeCell<'_>,
    namespace_id: i32,
    connection: &str,
    recipients: &[String],
    act: &AuditEntry,
) -> Result<(), ReadError> {
    let values: [&(dyn ToSql + Sync); 4] = [&namespace_id, &connection, &recipients, &act.actor()];
    audit::execute(cell, SET, &values, act).await?;
    Ok(())
}

/// Has alerts printed to the log, unless it is set where they go.
pub async fn ensure_printed(
    cell: HomeCell<'_>,
    namespace_id: i32,
    act: &AuditEntry,
) -> Result<(), ReadError> {
    let values: [&(dyn ToSql + Sync); 2] = [&namespace_id, &act.actor()];
    audit::execute(cell, ENSURE_PRINTED, &values, act).await?;
    Ok(())
}

/// Ends the alerts of a namespace, and drops what waits for a message; false if none were set.
pub async fn unset(
    cell: HomeCell<'_>,
    namespace_id: i32,
    act: &AuditEntry,
) -> Result<bool, ReadError> {
    let gone = audit::query_opt(cell, UNSET, &[&namespace_id], act).await?;
    Ok(gone.is_some())
}

/// Where the alerts of a namespace go; nothing if that is not set.
pub async fn find(
    cell: HomeCell<'_>,
    namespace_id: i32,
) -> Result<Option<AlertSetting>, ReadError> {
    let client = cell.reader().await?;
    let row = client.query_opt(FIND, &[&namespace_id]).await?;
    Ok(row.map(|row| AlertSetting {
        connection: row.get(0),
        recipients: row.get(1),
        set_at: row.get(2),
        set_by: row.get(3),
        connection_exists: row.get(4),
    }))
}
