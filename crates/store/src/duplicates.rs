//! The `duplicates` table: the record of every repeat that was stopped.
//!
//! A storm of repeats costs a row. Repeats are counted in memory and written by a [`Tally`] a few
//! times a second, so that an answer never waits for a commit of its own. A process that is killed
//! loses the counts of its last moment, and nothing else.
//!
//! Of what differs from the first delivery, the first few payloads of each subject are kept whole;
//! the others are counted in one row that has no payload, so that a sender who knows a key cannot
//! fill the disk.

mod held;
mod statements;
mod tally;

pub use held::{
    DecisionKind, DecisionView, HeldArrival, HeldDecision, HeldDelivery, decide, find_held, finish,
    reopen,
};
pub use tally::{PAYLOADS_MAX, Tally};

use jiff::Timestamp;
use semel_model::{ClaimId, DuplicateId, EffectId, Fingerprint, RunId, WaitId};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::cell::{EveryCell, ReadError, SlotCell};
use crate::pool::PooledClient;

/// The duplicates of a namespace, as they are listed, with their payloads where those are asked for.
macro_rules! listed {
    () => {
        "
    SELECT d.subject, d.stopped_by, d.fingerprint, d.run_id, d.verdict, d.count, d.first_at, d.last_at,
           CASE WHEN $4 THEN d.payload END, r.key, f.name, d.arrival, d.decision, d.decision_key, d.decided_at,
           d.decided_by, d.decided_run
      FROM duplicates d
      LEFT JOIN runs r ON r.id = d.run_id
      LEFT JOIN releases l ON l.id = r.release_id
      LEFT JOIN flows f ON f.id = l.flow_id
     WHERE d.namespace_id = $1"
    };
}

const LIST: &str = concat!(
    listed!(),
    " AND ($2::uuid IS NULL OR d.run_id = $2)
     ORDER BY d.last_at DESC
     LIMIT $3"
);

/// What waits for an operator, by the index that has nothing else.
const LIST_HELD: &str = concat!(
    listed!(),
    "
       AND d.verdict = 'held' AND (d.decision IS NULL OR (d.decision = 'new_key' AND d.decided_run IS NULL))
       AND ($2::text IS NULL OR f.name = $2)
     ORDER BY d.last_at DESC
     LIMIT $3"
);

pub(crate) const STATEMENTS: &[&str] = &[
    statements::TALLY,
    statements::TALLY_AND_RAISE,
    statements::KNOWN,
    LIST,
    LIST_HELD,
    held::FIND,
    held::DECIDE,
    held::FINISH,
    held::REOPEN,
];

/// What stopped a repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// The claim of its key.
    Claim(ClaimId),
    /// The wait that had been answered.
    Wait(WaitId),
    /// The claim under which the same signed body came first.
    Replay(ClaimId),
    /// The effect that an earlier run had performed.
    Effect(EffectId),
    /// The effect that its destination had already, before anything was sent.
    Found(EffectId),
}

impl Subject {
    fn uuid(&self) -> Uuid {
        match self {
            Self::Claim(claim) | Self::Replay(claim) => *claim.as_uuid(),
            Self::Wait(wait) => *wait.as_uuid(),
            Self::Effect(effect) | Self::Found(effect) => *effect.as_uuid(),
        }
    }

    fn stopped_by(&self) -> &'static str {
        match self {
            Self::Claim(_) => "claim",
            Self::Wait(_) => "wait",
            Self::Replay(_) => "replay",
            Self::Effect(_) => "ledger",
            Self::Found(_) => "destination",
        }
    }
}

/// What happened to a repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DuplicateVerdict {
    /// The same payload: answered as the first.
    Repeat,
    /// Another payload: refused, or answered as a repeat, as the trigger says.
    Mismatch,
    /// Another payload, or a signed body under another key: held for an operator.
    Held,
}

impl DuplicateVerdict {
    fn as_str(self) -> &'static str {
        match self {
            Self::Repeat => "repeat",
            Self::Mismatch => "mismatch",
            Self::Held => "held",
        }
    }
}

/// A repeat that was stopped.
#[derive(Clone, Debug)]
pub struct StoppedRepeat {
    /// By what.
    pub subject: Subject,
    /// The namespace that owns it.
    pub namespace_id: i32,
    /// The run that answered.
    pub run: RunId,
    /// Its payload's fingerprint.
    pub fingerprint: Fingerprint,
    /// What happened to it.
    pub kind: DuplicateVerdict,
    /// Its payload as JSON text, where it differs from the first's.
    pub payload: Option<String>,
    /// What a run of its own needs besides the payload, as JSON text, where it is held.
    pub arrival: Option<String>,
    /// When it came.
    pub at: Timestamp,
}

impl StoppedRepeat {
    /// What it is counted under.
    pub fn id(&self) -> DuplicateId {
        let subject = self.subject.uuid();
        DuplicateId::derive(&subject, self.subject.stopped_by(), self.fingerprint)
    }
}

/// A stopped repeat as the API shows it.
#[derive(Clone, Debug)]
pub struct DuplicateView {
    /// The claim, wait or effect that stopped it.
    pub subject: Uuid,
    /// Where it was stopped: `claim`, `wait`, `replay`, `ledger` or `destination`.
    pub stopped_by: String,
    /// Its payload's fingerprint; all zeros where further payloads are counted together.
    pub fingerprint: Fingerprint,
    /// The run that answered.
    pub run: RunId,
    /// What happened to it.
    pub verdict: String,
    /// How many.
    pub count: i64,
    /// When the first came.
    pub first_at: Timestamp,
    /// When the latest came.
    pub last_at: Timestamp,
    /// Its payload as JSON text, where it differs from the first's.
    pub payload: Option<String>,
    /// The run's key, while its record is kept.
    pub key: Option<Vec<u8>>,
    /// The run's flow, while its record is kept.
    pub flow: Option<String>,
    /// The key that it came with, where it is held.
    pub came_as: Option<String>,
    /// What an operator decided about it.
    pub decision: Option<DecisionView>,
}

impl DuplicateView {
    /// Its identity.
    pub fn id(&self) -> DuplicateId {
        DuplicateId::derive(&self.subject, &self.stopped_by, self.fingerprint)
    }
}

/// Lists stopped repeats, latest first, with or without their payloads.
pub async fn list(
    cell: EveryCell<'_>,
    namespace_id: i32,
    limit: u16,
    payloads: bool,
) -> Result<Vec<DuplicateView>, ReadError> {
    let client = cell.reader().await?;
    read_views(&client, namespace_id, None, limit, payloads).await
}

/// Lists what is held and not decided, of a flow where one is named, latest first, with or without
/// payloads.
pub async fn list_held(
    cell: EveryCell<'_>,
    namespace_id: i32,
    flow: Option<&str>,
    limit: u16,
    payloads: bool,
) -> Result<Vec<DuplicateView>, ReadError> {
    let client = cell.reader().await?;
    let limit = i64::from(limit);
    let rows = client
        .query(LIST_HELD, &[&namespace_id, &flow, &limit, &payloads])
        .await?;
    Ok(rows.iter().map(read_view).collect())
}

/// Lists the repeats that a run stopped, latest first.
pub async fn list_of_run(
    cell: SlotCell<'_>,
    namespace_id: i32,
    run: RunId,
    limit: u16,
) -> Result<Vec<DuplicateView>, ReadError> {
    let client = cell.reader().await?;
    read_views(&client, namespace_id, Some(run), limit, true).await
}

async fn read_views(
    client: &PooledClient,
    namespace_id: i32,
    run: Option<RunId>,
    limit: u16,
    payloads: bool,
) -> Result<Vec<DuplicateView>, ReadError> {
    let run = run.map(|run| *run.as_uuid());
    let limit = i64::from(limit);
    let rows = client
        .query(LIST, &[&namespace_id, &run, &limit, &payloads])
        .await?;
    Ok(rows.iter().map(read_view).collect())
}

fn read_view(row: &Row) -> DuplicateView {
    DuplicateView {
        subject: row.get(0),
        stopped_by: row.get(1),
        fingerprint: Fingerprint::from_uuid(row.get(2)),
        run: RunId::from_uuid(row.get(3)),
        verdict: row.get(4),
        count: row.get(5),
        first_at: row.get(6),
        last_at: row.get(7),
        payload: crate::runs::read_json(row, 8),
        key: row.get(9),
        flow: row.get(10),
        came_as: crate::runs::read_json(row, 11)
            .and_then(|text| Some(HeldArrival::read(&text)?.key)),
        decision: held::read_decision(row, 12),
    }
}
