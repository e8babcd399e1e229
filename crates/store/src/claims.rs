//! The gate in front of a run: the `claims` table, and what is made together with a claim.
//!
//! Accept takes many deliveries and makes one commit. Commit points: there is one, that of the one
//! statement of [`Accept`]; before it nothing of a delivery exists, after it claim, run, first
//! journal row and queue entry all do, and only then is a sender answered. Where the process that
//! accepts also starts the run, the intent of the run's first effect is in the same commit.
//!
//! Rows go in in the order of their identity, so that two servers, or two lanes of one, that accept the same keys at the
//! same time wait for each other and never deadlock.
//!
//! A claim's row stays when its key expires or is dropped: it is then *free*, which a row without
//! an expiry is, and knows the number of its last run. The next delivery of the key takes the row
//! over by one conditional update. Numbers never go back for as long as the row stays, so no two
//! runs of a key share an identity, nor the addresses of their callbacks and approvals.
//!
//! To free a key, the caller names the run that was judged, and the statement holds that run while
//! it judges it again: a run that was resumed, or another run of the key, keeps the key. The claim
//! is locked before the run.

use jiff::Timestamp;
use semel_model::run::RunState;
use semel_model::{
    ClaimId, ClaimVerdict, DeliveryId, Event, Fingerprint, FlowName, Key, NamespaceName, RunId,
    SessionId, Span,
};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::audit::{self, AuditEntry};
use crate::cell::{EveryCell, ReadError, SlotCell};
use crate::journal::EffectChange;
use crate::pool::PooledClient;
use crate::schedules::ScheduleLease;

mod accept;
mod known;
mod next_run;

pub(crate) use accept::examples;
pub use accept::{Accept, start_accepting};
pub use known::{KnownKey, KnownRun, list_known};
pub use next_run::{HeldKey, NextRun, find_of_run, make_next_run};
pub(crate) use next_run::{MAKE_OR_NOTHING, Rows};

/// The expiry counts from the run's end, once there is one.
const FIND: &str = "
    SELECT c.id, c.run_id, c.fingerprint,
           greatest(c.expires_at,
                    r.ended_at + (c.expires_at - coalesce(c.counted_from, r.accepted_at)))
      FROM claims c
      LEFT JOIN runs r ON r.id = c.run_id
     WHERE c.id = ANY ($1) AND c.expires_at IS NOT NULL";

/// Of several requests that drop the key at once, one does; the others find it free, or held again.
const DROP: &str = "/* commits alone: drop key */
    WITH judged AS MATERIALIZED (
        SELECT c.id, c.run_id, r.partition_date
          FROM claims c
          JOIN runs r ON r.id = c.run_id
         WHERE c.id = $1 AND c.run_id = $2 AND c.expires_at IS NOT NULL
           AND r.state IN ('succeeded', 'failed', 'cancelled', 'superseded')
           FOR UPDATE OF c FOR SHARE OF r)
    UPDATE claims c
       SET expires_at = NULL, counted_from = NULL, last_run = j.run_id,
           last_partition_date = j.partition_date, dropped_at = moment(),
           intent = nullif(coalesce(c.intent, 0) + $3::int4, 0)
      FROM judged j
     WHERE c.id = j.id";

/// The run that answers for a key; where the key has expired, the last that did.
const LAST_RUN: &str = "SELECT run_id FROM claims WHERE id = $1 AND dropped_at IS NULL";

const NUMBERS: &str = "SELECT id, coalesce(run_number, 0) FROM claims WHERE id = ANY ($1)";

pub(crate) const STATEMENTS: &[&str] = &[
    accept::MEET,
    accept::MOVED,
    accept::REFUSE,
    FIND,
    DROP,
    LAST_RUN,
    NUMBERS,
    known::KNOWN,
    next_run::MAKE,
    next_run::MAKE_OR_NOTHING,
    next_run::OF_RUN,
];

/// One arrival, verified and keyed, on its way to the gate.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The digest of namespace, flow and key.
    pub claim: ClaimId,
    /// The key, as it came.
    pub key: Key,
    /// The payload's fingerprint.
    pub fingerprint: Fingerprint,
    /// The namespace that owns it.
    pub namespace_id: i32,
    /// The release that a new run starts on.
    pub release_id: i32,
    /// How long the key is remembered.
    pub keep: Span,
    /// Whether the key is a new intent when it comes back after that.
    pub expires_as_new: bool,
    /// This arrival.
    pub delivery: DeliveryId,
    /// The journal's first row, as JSON.
    pub events: String,
    /// The session that starts the run at once, where one has room.
    pub holder: Option<SessionId>,
    /// What that session does first, where it is known beforehand.
    pub first_effect: Option<FirstEffect>,
    /// Whether the key came recently. A hint: then it is looked for before it is claimed.
    pub seems_known: bool,
    /// The number of the last run of the key that this delivery may make. A key that is free, and had that run, answers as if
    /// it were held. Nothing where the delivery may always make the next run.
    pub run_max: Option<i32>,
    /// The lease of the schedule that named it, for an instant: it makes a run only while that lease holds, and only the
    /// first of its key.
    pub lease: Option<ScheduleLease>,
}

impl Delivery {
    /// The number of the last run of the key that it may make.
    fn reach(&self) -> i32 {
        self.run_max.unwrap_or(i32::MAX)
    }
}

/// What a run does first. It is written with the claim, and holds for the claim's first run only.
#[derive(Clone, Debug)]
pub struct FirstEffect {
    /// The journal's first row, with the events of the move.
    pub events: String,
    /// The entry of the ledger that the move makes.
    pub effect: Option<EffectChange>,
    /// The version of what is paused that the move was decided under.
    pub pause_version: i64,
    /// Whether that is another by now, so that the run begins without it.
    pub is_stale: bool,
}

/// What a delivery found.
#[derive(Clone, Debug)]
pub struct AcceptResult {
    /// New, duplicate or mismatch.
    pub verdict: ClaimVerdict,
    /// The run that answers for the key.
    pub run: RunId,
    /// What the record says of that run.
    pub state: RunState,
    /// Its result, as JSON text, once there is one.
    pub result: Option<String>,
    /// Its fault, as JSON text, once there is one.
    pub fault: Option<String>,
    /// When the first delivery was accepted.
    pub accepted_at: Timestamp,
    /// The runs before it, where it was made now and is not the first of its key.
    pub follows: Option<Event>,
    /// Whether it must be decided from its journal: its first effect was left out, because something
    /// was paused or resumed since it was decided; or it was found again after a lost answer, and
    /// follows other runs.
    pub undecided: bool,
    /// Whether the schedule that named the instant was taken by another server, or given back. Then there is no
    /// run, and none was made: the other fields mean nothing.
    pub lost_lease: bool,
}

/// A claim as the API shows it.
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

/// Looks a claim up that holds its key.
pub async fn find(cell: SlotCell<'_>, claim: ClaimId) -> Result<Option<ClaimView>, ReadError> {
    find_first(&cell.reader().await?, &[claim]).await
}

/// The run that answers for a key or, where the key has expired, the last one that did; none where an
/// operator dropped the key.
pub async fn find_last_run(cell: SlotCell<'_>, claim: ClaimId) -> Result<Option<RunId>, ReadError> {
    let client = cell.reader().await?;
    let row = client.query_opt(LAST_RUN, &[claim.as_uuid()]).await?;
    Ok(row.map(|row| RunId::from_uuid(row.get(0))))
}

/// Looks up the claim of a key that people know by its text: what a sender or an author named comes
/// before what Semel made itself.
pub async fn find_by_key(
    cell: EveryCell<'_>,
    namespace: &NamespaceName,
    flow: &FlowName,
    key: &Key,
) -> Result<Option<ClaimView>, ReadError> {
    let claims = ClaimId::derive_all(namespace, flow, key);
    find_first(&cell.reader().await?, &claims).await
}

/// Lists those of several claims that hold their keys, in no order.
pub async fn list_held(
    cell: EveryCell<'_>,
    claims: &[ClaimId],
) -> Result<Vec<ClaimView>, ReadError> {
    list(&cell.reader().await?, claims).await
}

/// Looks up the first of several claims that holds its key.
async fn find_first(
    client: &PooledClient,
    claims: &[ClaimId],
) -> Result<Option<ClaimView>, ReadError> {
    let found = list(client, claims).await?.into_iter();
    Ok(found.min_by_key(|view| claims.iter().position(|claim| *claim == view.id)))
}

async fn list(client: &PooledClient, claims: &[ClaimId]) -> Result<Vec<ClaimView>, ReadError> {
    let ids: Vec<Uuid> = claims.iter().map(|claim| *claim.as_uuid()).collect();
    let rows = client.query(FIND, &[&ids]).await?;
    let read = |row: &Row| ClaimView {
        id: ClaimId::from_uuid(row.get(0)),
        run: RunId::from_uuid(row.get(1)),
        fingerprint: Fingerprint::from_uuid(row.get(2)),
        expires_at: row.get(3),
    };
    Ok(rows.iter().map(read).collect())
}

/// Lists the newest runs of claims, whether their keys are held or free: at most `most` of each.
pub async fn list_newest_runs(
    cell: EveryCell<'_>,
    claims: &[ClaimId],
    most: u32,
) -> Result<Vec<RunId>, ReadError> {
    let ids: Vec<Uuid> = claims.iter().map(|claim| *claim.as_uuid()).collect();
    let rows = cell.reader().await?.query(NUMBERS, &[&ids]).await?;
    let numbered = rows.iter().map(|row| {
        let newest: i32 = row.get(1);
        (ClaimId::from_uuid(row.get(0)), newest.unsigned_abs())
    });
    let runs = numbered.flat_map(|(claim, newest)| {
        let numbers = (0..=newest).rev().take(most as usize);
        numbers.map(move |number| RunId::derive(claim, number))
    });
    Ok(runs.collect())
}

/// Frees a key whose run has ended, on an operator's behalf; the act is recorded in the same
/// commit. If `new_intent`, the effects of its next run have new keys. False if another run has the
/// key by now, or this one was resumed.
pub async fn drop_claim(
    cell: SlotCell<'_>,
    claim: ClaimId,
    run: RunId,
    new_intent: bool,
    act: &AuditEntry,
) -> Result<bool, ReadError> {
    let intent = i32::from(new_intent);
    let values: [&(dyn ToSql + Sync); 3] = [claim.as_uuid(), run.as_uuid(), &intent];
    let dropped = audit::execute(cell, DROP, &values, act).await?;
    Ok(dropped == 1)
}
