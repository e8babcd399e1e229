//! Held deliveries, and what operators decide about them: each once.
//!
//! ```text
//! held ──▶ repeat | dismissed                 one commit, with its record
//!      └─▶ new_key, no run ══▶ new_key, run   the run is accepted between the two commits, by its claim
//!              └─▶ held                       the key cannot have this delivery
//! ```
//!
//! A server that dies between the two commits leaves a decision without its run. It stays on the list of
//! what is held, and the same command completes it.

use jiff::Timestamp;
use semel_model::{DuplicateId, Fingerprint, Key, RunId, TriggerKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::audit::{self, AuditEntry};
use crate::cell::{ReadError, SlotCell};

/// The rows of a few subjects: everything of a key begins with the same bytes.
pub(super) const FIND: &str = "
    SELECT d.subject, d.stopped_by, d.fingerprint, d.run_id, d.verdict, d.payload, d.arrival,
           d.decision, d.decision_key, d.decided_at, d.decided_by, d.decided_run
      FROM duplicates d
     WHERE d.namespace_id = $1 AND d.subject BETWEEN $2 AND $3 AND d.stopped_by IN ('claim', 'replay')";

pub(super) const DECIDE: &str = "
    UPDATE duplicates
       SET decision = $4, decision_key = $5, decided_at = moment(), decided_by = $6, decided_run = $7
     WHERE subject = $1 AND stopped_by = $2 AND fingerprint = $3
       AND verdict = 'held' AND decision IS NULL";

/// Also where the decision was taken back while its run was being accepted.
pub(super) const FINISH: &str = "
    UPDATE duplicates
       SET decision = 'new_key', decision_key = $4, decided_at = coalesce(decided_at, moment()),
           decided_by = coalesce(decided_by, $5), decided_run = $6
     WHERE subject = $1 AND stopped_by = $2 AND fingerprint = $3 AND verdict = 'held'
       AND (decision IS NULL OR (decision = 'new_key' AND decision_key = $4 AND decided_run IS NULL))";

pub(super) const REOPEN: &str = "
    UPDATE duplicates
       SET decision = NULL, decision_key = NULL, decided_at = NULL, decided_by = NULL
     WHERE subject = $1 AND stopped_by = $2 AND fingerprint = $3
       AND decision = 'new_key' AND decision_key = $4 AND decided_run IS NULL";

/// What a run of a held delivery needs besides its payload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldArrival {
    /// The flow.
    pub flow: String,
    /// The trigger that it came by.
    pub trigger: TriggerKind,
    /// The key that it came with, as people read it.
    pub key: String,
    /// The headers that expressions of the flow may read.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub headers: Value,
    /// The query parameters that expressions of the flow may read.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub query: Value,
    /// Who started it, where the flow asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The fingerprint of its payload alone: a replayed body is recorded under that of the payload and
    /// the key that it came with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Fingerprint>,
}

impl HeldArrival {
    /// Reads it from its column. No operator of the database is used on it: a sender may have put a
    /// zero into a header, which those refuse.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The same, as the table has it.
    #[must_use]
    pub fn to_columns(&self) -> ArrivalColumns {
        let text = serde_json::to_string(self);
        ArrivalColumns {
            flow: self.flow.clone(),
            // Its maps have text keys, so that it always has a JSON text.
            text: text.unwrap_or_else(|_| "null".to_owned()),
        }
    }
}

/// The columns of a held delivery's arrival.
#[derive(Clone, Debug)]
pub struct ArrivalColumns {
    /// The flow, by which held deliveries are listed.
    pub(super) flow: String,
    /// All of it, as JSON text.
    pub(super) text: String,
}

/// What an operator decides about a held delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeldDecision {
    /// A run of its own, under this key.
    NewKey(Key),
    /// The existing run answers for it.
    Repeat(RunId),
    /// Nothing comes of it.
    Dismissed,
}

impl HeldDecision {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> DecisionKind {
        match self {
            Self::NewKey(_) => DecisionKind::NewKey,
            Self::Repeat(_) => DecisionKind::Repeat,
            Self::Dismissed => DecisionKind::Dismissed,
        }
    }

    fn key(&self) -> Option<&[u8]> {
        match self {
            Self::NewKey(key) => Some(key.as_bytes()),
            Self::Repeat(_) | Self::Dismissed => None,
        }
    }

    fn run(&self) -> Option<Uuid> {
        match self {
            Self::Repeat(run) => Some(*run.as_uuid()),
            Self::NewKey(_) | Self::Dismissed => None,
        }
    }
}

/// The kind of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionKind {
    /// A run of its own.
    NewKey,
    /// The existing run answers for it.
    Repeat,
    /// Nothing comes of it.
    Dismissed,
}

impl DecisionKind {
    /// The word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NewKey => "new_key",
            Self::Repeat => "repeat",
            Self::Dismissed => "dismissed",
        }
    }
}

/// A decision as it is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionView {
    /// What was decided.
    pub kind: DecisionKind,
    /// The key that the operator chose.
    pub key: Option<Key>,
    /// When.
    pub at: Timestamp,
    /// By whom.
    pub by: String,
    /// The run that the delivery has now.
    pub run: Option<RunId>,
}

/// Deliveries that were stopped at one place with one payload.
#[derive(Clone, Debug)]
pub struct HeldDelivery {
    /// Its identity.
    pub id: DuplicateId,
    /// The claim that it met: of its key or, for a replayed body, of the first key of that body.
    pub subject: Uuid,
    /// Where it was stopped: `claim` or `replay`.
    pub stopped_by: String,
    /// What it is recorded under: the fingerprint of its payload or, for a replayed body, of its payload
    /// and its key.
    pub fingerprint: Fingerprint,
    /// The run that its sender was given.
    pub run: RunId,
    /// Whether it is held, or was.
    pub is_held: bool,
    /// Its payload as JSON text, where it is kept.
    pub payload: Option<String>,
    /// What a run of its own needs besides the payload.
    pub arrival: Option<HeldArrival>,
    /// What was decided.
    pub decision: Option<DecisionView>,
}

impl HeldDelivery {
    /// The fingerprint of its payload alone.
    #[must_use]
    pub fn payload_fingerprint(&self) -> Fingerprint {
        let own = self.arrival.as_ref().and_then(|it| it.fingerprint);
        own.unwrap_or(self.fingerprint)
    }
}

/// Looks a stopped delivery up.
pub async fn find_held(
    cell: SlotCell<'_>,
    namespace_id: i32,
    id: DuplicateId,
) -> Result<Option<HeldDelivery>, ReadError> {
    let (low, high) = id.subject_range();
    let client = cell.reader().await?;
    let rows = client.query(FIND, &[&namespace_id, &low, &high]).await?;
    Ok(rows.iter().map(read).find(|held| held.id == id))
}

/// Decides what is held and not decided; the act is recorded in the same commit. False where another
/// decision was first.
pub async fn decide(
    cell: SlotCell<'_>,
    held: &HeldDelivery,
    decision: &HeldDecision,
    act: &AuditEntry,
) -> Result<bool, ReadError> {
    let (kind, key, actor) = (decision.kind().as_str(), decision.key(), act.actor());
    let run = decision.run();
    let values: [&(dyn ToSql + Sync); 7] = [
        &held.subject,
        &held.stopped_by,
        held.fingerprint.as_uuid(),
        &kind,
        &key,
        &actor,
        &run,
    ];
    Ok(audit::execute(cell, DECIDE, &values, act).await? == 1)
}

/// Notes the run that a delivery has under its new key. False where there is no such decision to
/// complete: the record is gone, or says something else by now.
pub async fn finish(
    cell: SlotCell<'_>,
    held: &HeldDelivery,
    (key, run): (&Key, RunId),
    actor: &str,
) -> Result<bool, ReadError> {
    let key = key.as_bytes();
    let values: [&(dyn ToSql + Sync); 6] = [
        &held.subject,
        &held.stopped_by,
        held.fingerprint.as_uuid(),
        &key,
        &actor,
        run.as_uuid(),
    ];
    Ok(cell.reader().await?.execute(FINISH, &values).await? == 1)
}

/// Takes back a decision whose key cannot have this delivery; the act is recorded in the same commit.
pub async fn reopen(
    cell: SlotCell<'_>,
    held: &HeldDelivery,
    key: &Key,
    act: &AuditEntry,
) -> Result<(), ReadError> {
    let key = key.as_bytes();
    let values: [&(dyn ToSql + Sync); 4] = [
        &held.subject,
        &held.stopped_by,
        held.fingerprint.as_uuid(),
        &key,
    ];
    audit::execute(cell, REOPEN, &values, act).await?;
    Ok(())
}

fn read(row: &Row) -> HeldDelivery {
    let (subject, stopped_by): (Uuid, String) = (row.get(0), row.get(1));
    let fingerprint = Fingerprint::from_uuid(row.get(2));
    HeldDelivery {
        id: DuplicateId::derive(&subject, &stopped_by, fingerprint),
        subject,
        stopped_by,
        fingerprint,
        run: RunId::from_uuid(row.get(3)),
        is_held: row.get::<_, &str>(4) == "held",
        payload: crate::runs::read_json(row, 5),
        arrival: crate::runs::read_json(row, 6).and_then(|text| HeldArrival::read(&text)),
        decision: read_decision(row, 7),
    }
}

/// The decision in five columns from `at` on.
pub(super) fn read_decision(row: &Row, at: usize) -> Option<DecisionView> {
    let kind = match row.get::<_, Option<&str>>(at)? {
        "new_key" => DecisionKind::NewKey,
        "repeat" => DecisionKind::Repeat,
        _ => DecisionKind::Dismissed,
    };
    let key: Option<Vec<u8>> = row.get(at + 1);
    let run: Option<Uuid> = row.get(at + 4);
    Some(DecisionView {
        kind,
        key: key.and_then(|bytes| Key::new(bytes).ok()),
        at: row.get(at + 2),
        by: row.get(at + 3),
        run: run.map(RunId::from_uuid),
    })
}
