//! Messages about alerts: taken under a lease, sent, settled.
//!
//! ```text
//! due ──▶ sending ──┬──▶ done
//!            ▲ │    ├──▶ failed     its count goes back to the group
//!            └─┘    └──▶ in doubt   its count goes back to the group
//! ```
//!
//! A message that is still `sending` when its lease is over was in the hands of a server that died:
//! whoever takes it next must decide whether it may be sent again.

use jiff::Timestamp;
use semel_model::{AlertGroup, EffectId, Span};
use tokio_postgres::types::ToSql;

use super::MessageText;
use super::groups::read_group;
use crate::audit::{self, AuditEntry};
use crate::cell::{HomeCell, ReadError};

/// One look at what there is to do: little is asked where nothing happens.
const LOOK: &str = "
    SELECT EXISTS (SELECT 1 FROM alert_events),
           EXISTS (SELECT 1 FROM alert_groups g JOIN alert_settings s ON s.namespace_id = g.namespace_id
                    WHERE g.due_at <= (SELECT moment())
                      AND NOT EXISTS (SELECT 1 FROM pauses p
                                       WHERE p.namespace_id = g.namespace_id AND p.kind = 'connection'
                                         AND p.name = s.connection AND p.resumed_at IS NULL)),
           EXISTS (SELECT 1 FROM alert_messages
                    WHERE state IN ('due', 'sending')
                      AND (state = 'due' OR lease_until <= (SELECT moment())))";

/// Namespaces take turns: the first message of each goes before the second of any. One whose latest message
/// of some group did not arrive has lost its other places: it has one, behind all others, and those like it
/// have some of the places together, by lot: whoever has the oldest messages would have all of them, and a
/// namespace whose destination works again none. So destinations that hang leave room for those that do not.
/// What goes over a paused connection stays due.
const TAKE: &str = "/* commits alone: alert take */
    WITH open AS MATERIALIZED (
        SELECT id, namespace_id, intended_at,
               row_number() OVER (PARTITION BY namespace_id ORDER BY intended_at, id) AS place
          FROM alert_messages
         WHERE state IN ('due', 'sending')
           AND (state = 'due' OR lease_until <= (SELECT moment()))
           AND NOT EXISTS (SELECT 1 FROM pauses p
                            WHERE p.namespace_id = alert_messages.namespace_id
                              AND p.kind = 'connection' AND p.resumed_at IS NULL
                              AND p.name = alert_messages.destination)),
    busy AS MATERIALIZED (
        SELECT namespace_id, count(*) AS messages
          FROM alert_messages
         WHERE state = 'sending' AND lease_until > (SELECT moment())
         GROUP BY namespace_id),
    failing AS MATERIALIZED (
        SELECT n.namespace_id
          FROM (SELECT namespace_id FROM open UNION SELECT namespace_id FROM busy) n
         WHERE EXISTS (SELECT 1 FROM alert_groups g
                        WHERE g.namespace_id = n.namespace_id AND g.failures > 0)),
    turns AS MATERIALIZED (
        SELECT o.id, o.intended_at, o.place + coalesce(b.messages, 0) AS turn,
               f.namespace_id IS NOT NULL AS fails,
               CASE WHEN f.namespace_id IS NOT NULL THEN random() END AS lot
          FROM open o
          LEFT JOIN busy b ON b.namespace_id = o.namespace_id
          LEFT JOIN failing f ON f.namespace_id = o.namespace_id),
    allowed AS MATERIALIZED (
        SELECT t.id, t.fails,
               row_number() OVER (PARTITION BY t.fails ORDER BY t.turn, t.lot, t.intended_at, t.id) AS place
          FROM turns t
         WHERE t.turn <= CASE WHEN t.fails THEN 1 ELSE $3::int8 END),
    chosen AS MATERIALIZED (
        SELECT a.id
          FROM alert_messages a
          JOIN allowed t ON t.id = a.id
         WHERE a.state IN ('due', 'sending')
           AND (a.state = 'due' OR a.lease_until <= (SELECT moment()))
           AND (NOT t.fails
                OR t.place + (SELECT coalesce(sum(b.messages), 0)
                                FROM busy b
                                JOIN failing f ON f.namespace_id = b.namespace_id) <= $4::int8)
         ORDER BY t.fails, t.place
         LIMIT $1
           FOR UPDATE OF a SKIP LOCKED)
    UPDATE alert_messages m
       SET state = 'sending', attempt = m.attempt + 1,
           lease_until = moment() + make_interval(secs => $2)
     WHERE m.id = ANY (ARRAY(SELECT id FROM chosen))
 RETURNING m.namespace_id, m.kind::text, m.flow, m.connection, m.step, m.id, m.destination,
           m.recipients, m.subject, m.body, m.attempt, m.count";

/// What was not delivered counts again, and makes a message due by itself as long as few failed in a
/// row. After that, the next event does.
const SETTLE: &str = "/* commits alone: alert settle */
    WITH settled AS (
        UPDATE alert_messages
           SET state = $3::text::alert_message_state, note = left($4, 500), lease_until = NULL,
               settled_at = moment()
         WHERE id = $1 AND state = 'sending' AND attempt = $2
     RETURNING namespace_id, kind, flow, connection, step, count, since, example)
    UPDATE alert_groups g
       SET failures = CASE WHEN $3 = 'done' THEN 0 ELSE g.failures + 1 END,
           waiting = CASE WHEN $3 = 'done' THEN g.waiting ELSE g.waiting + s.count END,
           waiting_since = CASE WHEN $3 = 'done' THEN g.waiting_since
                                ELSE least(g.waiting_since, s.since) END,
           example = coalesce(g.example, s.example),
           due_at = CASE WHEN $3 = 'done' OR g.failures + 1 >= $5 THEN g.due_at
                         ELSE coalesce(g.due_at, g.quiet_until) END
      FROM settled s
     WHERE g.namespace_id = s.namespace_id AND g.kind = s.kind AND g.flow = s.flow
       AND g.connection = s.connection AND g.step = s.step";

const BEGIN_TEST: &str = "
    INSERT INTO alert_messages (id, namespace_id, kind, flow, connection, step, period_start, count,
                                since, destination, recipients, subject, body, state, attempt,
                                lease_until)
    SELECT $1::uuid, s.namespace_id, 'test'::alert_kind, '', '', '', $3::timestamptz, 1, $3, s.connection, s.recipients,
           $4::text, $5::text,
           'sending'::alert_message_state, 1, moment() + make_interval(secs => $6)
      FROM alert_settings s
     WHERE s.namespace_id = $2
 RETURNING destination, recipients";

const FORGET_MESSAGES: &str = "
    DELETE FROM alert_messages
     WHERE id IN (SELECT id FROM alert_messages
                   WHERE state IN ('done', 'failed', 'in_doubt')
                     AND settled_at < (SELECT moment()) - interval '30 days' LIMIT 5000)";

const FORGET_GROUPS: &str = "
    DELETE FROM alert_groups
     WHERE (namespace_id, kind, flow, connection, step) IN (
           SELECT namespace_id, kind, flow, connection, step FROM alert_groups
            WHERE last_at < (SELECT moment()) - interval '30 days'
              AND (quiet_until IS NULL OR quiet_until < moment()) AND due_at IS NULL
            ORDER BY last_at LIMIT 5000 FOR UPDATE SKIP LOCKED)";

/// Namespaces whose connection does not exist, or whose latest message of some group was not delivered.
const FAILING: &str = "
    SELECT count(*)
      FROM alert_settings s
     WHERE (s.connection IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM connections c
                             WHERE c.namespace_id = s.namespace_id AND c.name = s.connection))
        OR EXISTS (SELECT 1 FROM alert_groups g
                    WHERE g.namespace_id = s.namespace_id AND g.failures > 0)";

pub(super) const STATEMENTS: &[&str] = &[
    LOOK,
    TAKE,
    SETTLE,
    BEGIN_TEST,
    FORGET_MESSAGES,
    FORGET_GROUPS,
    FAILING,
];

/// The most messages of a namespace that are on their way at once, of all servers together.
const SENDING_MAX: i64 = 4;

/// The most messages that are on their way at once of all namespaces whose latest ones did not arrive: half
/// of the places of a server.
const FAILING_MAX: i64 = 4;

/// After how many messages in a row that were not delivered only a further event makes one due.
const FAILURES_MAX: i32 = 8;

/// What there is to do about alerts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenWork {
    /// Events that no group counts yet.
    pub events: bool,
    /// Groups whose message is due.
    pub groups: bool,
    /// Messages that no server sends.
    pub messages: bool,
}

/// A message that this process sends, or settles because another one died over it.
#[derive(Clone, Debug)]
pub struct AlertMessage {
    /// The key that it carries on every attempt.
    pub key: EffectId,
    /// What it is about.
    pub group: AlertGroup,
    /// The connection that it goes to; nothing if it is only printed to the log.
    pub destination: Option<String>,
    /// Whom it goes to there.
    pub recipients: Vec<String>,
    /// What it says.
    pub text: MessageText,
    /// How often a server took it.
    pub attempt: i32,
    /// How much it counts.
    pub count: i64,
}

/// The outcome of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlertOutcome {
    /// The destination has it.
    Done,
    /// The destination does not have it, because of this.
    Failed(String),
    /// Whether the destination has it is unknown, because of this.
    InDoubt(String),
}

impl AlertOutcome {
    /// The word, and what was seen.
    #[must_use]
    pub fn parts(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::Done => ("done", None),
            Self::Failed(note) => ("failed", Some(note)),
            Self::InDoubt(note) => ("in_doubt", Some(note)),
        }
    }
}

/// What there is to do.
pub async fn look(cell: HomeCell<'_>) -> Result<OpenWork, ReadError> {
    let row = cell.reader().await?.query_one(LOOK, &[]).await?;
    Ok(OpenWork {
        events: row.get(0),
        groups: row.get(1),
        messages: row.get(2),
    })
}

/// Takes messages to send, for as long as `lease`.
pub async fn take_due(
    cell: HomeCell<'_>,
    most: i64,
    lease: Span,
) -> Result<Vec<AlertMessage>, ReadError> {
    let client = cell.reader().await?;
    let rows = client
        .query(
            TAKE,
            &[&most, &lease.as_secs_f64(), &SENDING_MAX, &FAILING_MAX],
        )
        .await?;
    let read = |row: &tokio_postgres::Row| {
        Some(AlertMessage {
            group: read_group(row)?,
            key: EffectId::from_uuid(row.get(5)),
            destination: row.get(6),
            recipients: row.get(7),
            text: MessageText {
                subject: row.get(8),
                body: row.get(9),
            },
            attempt: row.get(10),
            count: row.get(11),
        })
    };
    Ok(rows.iter().filter_map(read).collect())
}

/// Records the outcome of a message, unless a later attempt was begun.
pub async fn settle(
    cell: HomeCell<'_>,
    message: &AlertMessage,
    outcome: &AlertOutcome,
) -> Result<(), ReadError> {
    let (state, note) = outcome.parts();
    let note = note.map(semel_model::storable::without_zero);
    let values: [&(dyn ToSql + Sync); 5] = [
        message.key.as_uuid(),
        &message.attempt,
        &state,
        &note,
        &FAILURES_MAX,
    ];
    cell.reader().await?.execute(SETTLE, &values).await?;
    Ok(())
}

/// Writes a message that tests where alerts go, for the caller to send at once. Nothing if that is
/// not set.
pub async fn begin_test(
    cell: HomeCell<'_>,
    group: &AlertGroup,
    at: Timestamp,
    text: &MessageText,
    lease: Span,
    act: &AuditEntry,
) -> Result<Option<AlertMessage>, ReadError> {
    let (key, secs) = (group.message_key(at), lease.as_secs_f64());
    let values: [&(dyn ToSql + Sync); 6] = [
        key.as_uuid(),
        &group.namespace_id,
        &at,
        &text.subject,
        &text.body,
        &secs,
    ];
    let row = audit::query_opt(cell, BEGIN_TEST, &values, act).await?;
    Ok(row.map(|row| AlertMessage {
        key,
        group: group.clone(),
        destination: row.get(0),
        recipients: row.get(1),
        text: text.clone(),
        attempt: 1,
        count: 1,
    }))
}

/// How many namespaces have alerts that do not arrive.
pub async fn count_failing(cell: HomeCell<'_>) -> Result<u64, ReadError> {
    let row = cell.reader().await?.query_one(FAILING, &[]).await?;
    Ok(row.get::<_, i64>(0).unsigned_abs())
}

/// Deletes messages that were settled a month ago, and groups in which nothing happened for as long.
pub async fn forget(cell: HomeCell<'_>) -> Result<u64, ReadError> {
    let client = cell.reader().await?;
    let messages = client.execute(FORGET_MESSAGES, &[]).await?;
    Ok(messages + client.execute(FORGET_GROUPS, &[]).await?)
}
