//! What waits for a person in a namespace, of every kind, and whether it is served: in one statement.

use jiff::Timestamp;

use crate::attention::named::no_run_stands;
use crate::cell::{EveryCell, ReadError};

/// How much of one kind is counted.
pub const WAITING_MAX: i64 = 50;

/// One more than is counted of each, so that more can be told; the oldest is the first of its index.
const WAITING: &str = concat!(
    "
    SELECT 'doubt', count(*), min(since)
      FROM ((SELECT since FROM attention WHERE kind = 'doubt' AND namespace_id = $1
              ORDER BY since, subject_id LIMIT $2)
             UNION ALL
            (SELECT a.since
               FROM attention a
              CROSS JOIN LATERAL (SELECT holder_run, holder_step, undo_run, undo_seq FROM named_effects
                                   WHERE id = a.subject_id OFFSET 0) n
              WHERE a.kind = 'named_effect' AND a.namespace_id = $1 AND ",
    no_run_stands!(),
    "
              ORDER BY a.since, a.subject_id LIMIT $2)) AS a
     UNION ALL
    SELECT 'needs_review', count(*), min(since)
      FROM (SELECT since FROM attention WHERE kind = 'needs_review' AND namespace_id = $1
             ORDER BY since, subject_id LIMIT $2) AS a
     UNION ALL
    SELECT 'quarantined', count(*), min(since)
      FROM (SELECT since FROM attention WHERE kind = 'quarantined' AND namespace_id = $1
             ORDER BY since, subject_id LIMIT $2) AS a
     UNION ALL
    SELECT 'approval', count(*), min(opened_at)
      FROM (SELECT opened_at FROM approvals WHERE state = 'open' AND namespace_id = $1
             ORDER BY opened_at, id LIMIT $2) AS a
     UNION ALL
    SELECT 'held', count(*), min(last_at)
      FROM (SELECT last_at FROM duplicates
             WHERE namespace_id = $1 AND verdict = 'held'
               AND (decision IS NULL OR (decision = 'new_key' AND decided_run IS NULL))
             ORDER BY minute, subject LIMIT $2) AS d
     UNION ALL
    SELECT 'pause', count(*), min(paused_at)
      FROM (SELECT paused_at FROM pauses WHERE namespace_id = $1 AND resumed_at IS NULL LIMIT $2) AS p
     UNION ALL
    SELECT 'servers', count(*), max(started_at)
      FROM sessions WHERE lost_at IS NULL AND expires_at > (SELECT moment())
     UNION ALL
    SELECT 'due', count(*), min(due_at)
      FROM (SELECT due_at FROM queue
             WHERE holder IS NULL AND namespace_id = $1 AND due_at <= (SELECT moment())
             ORDER BY due_at LIMIT $2) AS q
     UNION ALL
    SELECT 'undelivered', count(*), max(settled_at)
      FROM (SELECT settled_at FROM webhook_deliveries
             WHERE state = 'failed' AND namespace_id = $1
               AND settled_at > (SELECT moment()) - interval '24 hours'
             ORDER BY settled_at DESC LIMIT $2) AS w
     UNION ALL
    SELECT 'refused', count(*), max(at)
      FROM (SELECT at FROM refused_deliveries WHERE namespace_id = $1 ORDER BY id DESC LIMIT $2) AS r
     WHERE at > (SELECT moment()) - interval '24 hours'"
);

pub(crate) const STATEMENTS: &[&str] = &[WAITING];

/// What can wait for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitingKind {
    /// An effect of which nobody knows whether it happened.
    Doubt,
    /// A run whose retries are used up.
    NeedsReview,
    /// A run that made no progress.
    Quarantined,
    /// An approval that is not decided.
    Approval,
    /// A delivery that is held because its payload differs.
    Held,
    /// A flow or a connection that is paused.
    Pause,
}

impl WaitingKind {
    /// Every kind, in the order in which they are told.
    pub const ALL: [Self; 6] = [
        Self::Doubt,
        Self::NeedsReview,
        Self::Quarantined,
        Self::Approval,
        Self::Held,
        Self::Pause,
    ];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Doubt => "doubt",
            Self::NeedsReview => "needs_review",
            Self::Quarantined => "quarantined",
            Self::Approval => "approval",
            Self::Held => "held",
            Self::Pause => "pause",
        }
    }
}

/// How much of one kind waits for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingView {
    /// What waits.
    pub what: WaitingKind,
    /// How many; one more than [`WAITING_MAX`] where there are more.
    pub count: i64,
    /// Since when the oldest waits.
    pub since: Option<Timestamp>,
}

/// Whether a namespace is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamespaceHealth {
    /// How many servers have a lease that holds, of the whole installation.
    pub servers: i64,
    /// How many runs are due and wait for a server; one more than [`WAITING_MAX`] where there are more.
    pub due: i64,
    /// Since when the first of them has been due.
    pub due_since: Option<Timestamp>,
    /// How many deliveries were refused in the last 24 hours; one more than [`WAITING_MAX`] where there
    /// are more.
    pub refused: i64,
    /// When the latest of them was.
    pub refused_at: Option<Timestamp>,
    /// How many deliveries of events to webhooks failed for good in the last 24 hours; one more than
    /// [`WAITING_MAX`] where there are more.
    pub undelivered: i64,
    /// When the latest of them was.
    pub undelivered_at: Option<Timestamp>,
}

/// How much of each kind waits in a namespace, also where it is nothing, and whether the namespace is served.
pub async fn get_overview(
    cell: EveryCell<'_>,
    namespace_id: i32,
) -> Result<(Vec<WaitingView>, NamespaceHealth), ReadError> {
    let client = cell.reader().await?;
    let limit = WAITING_MAX + 1;
    let rows = client.query(WAITING, &[&namespace_id, &limit]).await?;
    let counted = |word: &str| -> (i64, Option<Timestamp>) {
        let row = rows.iter().find(|row| row.get::<_, &str>(0) == word);
        row.map_or((0, None), |row| (row.get(1), row.get(2)))
    };
    let waiting = WaitingKind::ALL.map(|what| {
        let (count, since) = counted(what.as_str());
        WaitingView { what, count, since }
    });
    let (servers, _) = counted("servers");
    let (due, due_since) = counted("due");
    let (refused, refused_at) = counted("refused");
    let (undelivered, undelivered_at) = counted("undelivered");
    let health = NamespaceHealth {
        servers,
        due,
        due_since,
        refused,
        refused_at,
        undelivered,
        undelivered_at,
    };
    Ok((waiting.into(), health))
}
