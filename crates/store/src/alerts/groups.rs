//! Events into groups, and groups that are due into messages.

use jiff::Timestamp;
use semel_model::{AlertGroup, AlertKind, EffectId, RunId};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::cell::{HomeCell, ReadError};

/// The first message of a group leaves 10 seconds after its first event, and a later one not before
/// the time after the message before it is over. Groups are locked in the order of their key.
const FOLD: &str = "/* commits alone: alert fold */
    WITH taken AS (
        DELETE FROM alert_events
         WHERE id = ANY (ARRAY(SELECT id FROM alert_events ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED))
     RETURNING namespace_id, kind, flow, connection, step, run_id, count, at),
    folded AS (
        SELECT namespace_id, kind, flow, connection, step, sum(count)::int8 AS count, min(at) AS since,
               (array_agg(run_id ORDER BY at DESC) FILTER (WHERE run_id IS NOT NULL))[1] AS example,
               max(at) AS last_at, count(*) AS events
          FROM taken
         GROUP BY namespace_id, kind, flow, connection, step),
    grouped AS (
        INSERT INTO alert_groups AS g (namespace_id, kind, flow, connection, step, total, waiting,
                                       waiting_since, example, due_at, last_at)
        SELECT f.namespace_id, f.kind, f.flow, f.connection, f.step, f.count, f.count, f.since,
               f.example, f.since + make_interval(secs => $2), f.last_at
          FROM folded f
         ORDER BY f.namespace_id, f.kind, f.flow, f.connection, f.step
            ON CONFLICT (namespace_id, kind, flow, connection, step) DO UPDATE
           SET total = g.total + EXCLUDED.total, waiting = g.waiting + EXCLUDED.waiting,
               waiting_since = least(g.waiting_since, EXCLUDED.waiting_since),
               example = coalesce(EXCLUDED.example, g.example),
               due_at = coalesce(g.due_at, greatest(EXCLUDED.due_at, g.quiet_until)),
               last_at = greatest(g.last_at, EXCLUDED.last_at))
    SELECT coalesce(sum(events), 0)::int8 FROM folded";

/// What would go over a paused connection waits in its group, so that one message tells all of it.
const LOCK_DUE: &str = "
    SELECT g.namespace_id, g.kind::text, g.flow, g.connection, g.step, g.due_at, g.waiting,
           g.waiting_since, g.example, s.connection, s.recipients
      FROM alert_groups g
      JOIN alert_settings s ON s.namespace_id = g.namespace_id
     WHERE g.due_at <= (SELECT moment())
       AND NOT EXISTS (SELECT 1 FROM pauses p
                        WHERE p.namespace_id = g.namespace_id AND p.kind = 'connection'
                          AND p.name = s.connection AND p.resumed_at IS NULL)
     ORDER BY g.due_at
     LIMIT $1
       FOR UPDATE OF g SKIP LOCKED";

const EMPTY: &str = "
    UPDATE alert_groups
       SET waiting = 0, waiting_since = NULL, due_at = NULL,
           quiet_until = moment() + make_interval(secs => $6)
     WHERE namespace_id = $1 AND kind = $2::text::alert_kind AND flow = $3 AND connection = $4
       AND step = $5";

const WRITE: &str = "
    INSERT INTO alert_messages (id, namespace_id, kind, flow, connection, step, period_start, count,
                                since, example, destination, recipients, subject, body)
    VALUES ($1, $2, $3::text::alert_kind, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";

pub(super) const STATEMENTS: &[&str] = &[FOLD, LOCK_DUE, EMPTY, WRITE];

/// How many events one statement folds.
const FOLD_MAX: i64 = 10_000;

/// How many messages one transaction writes.
const INTEND_MAX: i64 = 100;

/// How long the first message of a group waits for further events, in seconds.
pub(super) const GATHER_SECS: f64 = 10.0;

/// How long a group is quiet after a message, in seconds.
const QUIET_SECS: f64 = 15.0 * 60.0;

/// A group whose next message is due.
#[derive(Clone, Debug)]
pub struct DueGroup {
    /// The group.
    pub group: AlertGroup,
    /// When the message became due: the start of its period.
    pub period_start: Timestamp,
    /// How often it happened since the last message.
    pub count: i64,
    /// When the first of those happened.
    pub since: Timestamp,
    /// A run that it happened to.
    pub example: Option<RunId>,
    destination: Option<String>,
    recipients: Vec<String>,
}

impl DueGroup {
    /// The key of the message.
    #[must_use]
    pub fn key(&self) -> EffectId {
        self.group.message_key(self.period_start)
    }
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageText {
    /// Its subject.
    pub subject: String,
    /// Its text.
    pub body: String,
}

/// Counts events in their groups, each once. Says whether there may be more.
pub async fn fold(cell: HomeCell<'_>) -> Result<bool, ReadError> {
    let client = cell.reader().await?;
    let row = client.query_one(FOLD, &[&FOLD_MAX, &GATHER_SECS]).await?;
    Ok(row.get::<_, i64>(0) >= FOLD_MAX)
}

/// Writes a message for each group that is due, and takes what it counts from the group. Gives what
/// was written.
pub async fn intend(
    cell: HomeCell<'_>,
    write: impl Fn(&DueGroup) -> MessageText + Send,
) -> Result<Vec<DueGroup>, ReadError> {
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    let rows = tx.query(LOCK_DUE, &[&INTEND_MAX]).await?;
    let due: Vec<DueGroup> = rows.iter().filter_map(read_due).collect();
    for one in &due {
        let DueGroup { group, .. } = one;
        let kind = group.kind.as_str();
        let text = write(one);
        let example: Option<Uuid> = one.example.map(|run| *run.as_uuid());
        let key = one.key();
        let values: [&(dyn ToSql + Sync); 14] = [
            key.as_uuid(),
            &group.namespace_id,
            &kind,
            &group.flow,
            &group.connection,
            &group.step,
            &one.period_start,
            &one.count,
            &one.since,
            &example,
            &one.destination,
            &one.recipients,
            &text.subject,
            &text.body,
        ];
        tx.execute(WRITE, &values).await?;
        let values: [&(dyn ToSql + Sync); 6] = [
            &group.namespace_id,
            &kind,
            &group.flow,
            &group.connection,
            &group.step,
            &QUIET_SECS,
        ];
        tx.execute(EMPTY, &values).await?;
    }
    tx.commit().await?;
    Ok(due)
}

pub(super) fn read_group(row: &Row) -> Option<AlertGroup> {
    let kind: AlertKind = row.get::<_, &str>(1).parse().ok()?;
    Some(AlertGroup {
        namespace_id: row.get(0),
        kind,
        flow: row.get(2),
        connection: row.get(3),
        step: row.get(4),
    })
}

fn read_due(row: &Row) -> Option<DueGroup> {
    Some(DueGroup {
        group: read_group(row)?,
        period_start: row.get(5),
        count: row.get(6),
        since: row.get(7),
        example: row.get::<_, Option<Uuid>>(8).map(RunId::from_uuid),
        destination: row.get(9),
        recipients: row.get(10),
    })
}
