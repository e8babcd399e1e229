//! The gate in front of a run: the `claims` table, and what is made together with a claim.
//!
//! Accept takes many deliveries and makes one commit. Commit points: there is one, that of the one
//! statement of [`Accept`]; before it nothing of a delivery exists, after it claim, run, first
//! journal row and queue entry all do, and only then is a sender answered. Where the process that
//! accepts also starts the run, the intent of the run's first effect is in the same commit.
//!
//! Rows go in in the order of their identity, so that two servers that accept the same keys at the
//! same time wait for each other and never in a circle.

use jiff::Timestamp;
use semel_model::run::State;
use semel_model::{ClaimId, DeliveryId, Fingerprint, Key, RunId, SessionId, Span, Verdict};

use crate::cell::{Cell, ReadError};
use crate::journal::EffectChange;

mod accept;

pub(crate) use accept::examples;
pub use accept::{Accept, start_accepting};

const FIND: &str = "SELECT id, run_id, fingerprint, expires_at FROM claims WHERE id = $1";

const DROP: &str = "DELETE FROM claims WHERE id = $1 RETURNING run_id";

pub(crate) const STATEMENTS: &[&str] = &[accept::MEET, FIND, DROP];

/// One arrival, verified and keyed, on its way to the gate.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The digest of namespace, flow and key.
    pub claim: ClaimId,
    /// The key, as it came.
    pub key: Key,
    /// The payload's fingerprint.
    pub fingerprint: Fingerprint,
    /// Whose it is.
    pub namespace_id: i32,
    /// The release that a new run starts on.
    pub release_id: i32,
    /// How long the key is remembered.
    pub keep: Span,
    /// This arrival.
    pub delivery: DeliveryId,
    /// The journal's first row, as JSON.
    pub events: String,
    /// The session that starts the run at once, where one has room.
    pub holder: Option<SessionId>,
    /// What that session does first, where it is known beforehand.
    pub first_move: Option<FirstMove>,
    /// Whether the key was met lately. A hint: then it is looked for before it is claimed.
    pub seems_known: bool,
}

/// What a run does first. It goes down with the claim, and holds for the claim's first run only.
#[derive(Clone, Debug)]
pub struct FirstMove {
    /// The journal's first row, with the events of the move.
    pub events: String,
    /// The entry of the ledger that the move makes.
    pub effect: Option<EffectChange>,
}

/// What a delivery met at the gate.
#[derive(Clone, Debug)]
pub struct Met {
    /// New, duplicate or mismatch.
    pub verdict: Verdict,
    /// The run that answers for the key.
    pub run: RunId,
    /// What the record says of that run.
    pub state: State,
    /// Its result, as JSON text, once there is one.
    pub result: Option<String>,
    /// Its fault, as JSON text, once there is one.
    pub fault: Option<String>,
    /// When the first delivery was accepted.
    pub accepted_at: Timestamp,
}

/// A claim as people see it.
#[derive(Clone, Debug)]
pub struct ClaimView {
    /// The claim.
    pub id: ClaimId,
    /// The run that answers for the key.
    pub run: RunId,
    /// The payload of the first delivery.
    pub fingerprint: Fingerprint,
    /// When the key may be forgotten.
    pub expires_at: Timestamp,
}

/// Looks a claim up.
pub async fn find(cell: &Cell, claim: ClaimId) -> Result<Option<ClaimView>, ReadError> {
    let client = cell.reader().await?;
    let row = client.query_opt(FIND, &[claim.as_uuid()]).await?;
    Ok(row.map(|row| ClaimView {
        id: ClaimId::from_uuid(row.get(0)),
        run: RunId::from_uuid(row.get(1)),
        fingerprint: Fingerprint::from_uuid(row.get(2)),
        expires_at: row.get(3),
    }))
}

/// Frees a key, and says whose run it was.
pub async fn drop_claim(cell: &Cell, claim: ClaimId) -> Result<Option<RunId>, ReadError> {
    let client = cell.reader().await?;
    let row = client.query_opt(DROP, &[claim.as_uuid()]).await?;
    Ok(row.map(|row| RunId::from_uuid(row.get(0))))
}
