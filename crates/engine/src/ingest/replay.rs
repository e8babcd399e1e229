//! Replays: a signed body that comes again under another key.
//!
//! Some sources sign the body and send its id beside it, unsigned. An attacker who captured one
//! delivery can send it again under as many ids as they like, so Semel remembers the body itself,
//! before the delivery is accepted:
//!
//! ```text
//!   remember ══▶ accept ══▶ answer        the first key of a body is accepted
//!   remember ──▶ hold   ══▶ answer        any other key is held for an operator
//! ```
//!
//! A crash between the two commits leaves a body that is remembered and has no run. When it comes
//! again, which it does under the same key, it still is the first of its body and is accepted.

use semel_model::run::RunState;
use semel_model::{ClaimId, Key, RunId, SeededBug};
use semel_store::duplicates::{DuplicateVerdict, Subject};
use semel_store::seen_bodies::{self, Body};
use semel_store::{ReadError, claims, runs};

use super::{Accepted, Inbound, Intake, IntakeError, held, stopped};
use crate::catalogue::Release;
use crate::runtime::Runtime;

/// How often a body is looked up that another delivery remembers in the same moment.
const LOOKS_MAX: usize = 8;

/// The other key under which a body came before, where there is one. A new body is remembered.
pub(super) async fn earlier_key(
    runtime: &Runtime,
    release: &Release,
    digest: &[u8; 32],
    key: &Key,
) -> Result<Option<ClaimId>, IntakeError> {
    let claim = ClaimId::derive(&release.namespace, &release.flow.name, key);
    let body = Body {
        namespace_id: release.namespace_id,
        flow: release.flow.name.as_str(),
        digest,
        claim,
        keep: release.flow.keep,
    };
    for _ in 0..LOOKS_MAX {
        let first = seen_bodies::remember(runtime.cell.of(body), body).await;
        if let Some(first) = first? {
            let ignored = SeededBug::ReplayedBodyAccepted.is_seeded();
            return Ok(Some(first).filter(|first| *first != claim && !ignored));
        }
    }
    Err(IntakeError::Unavailable(
        "the body is remembered and forgotten at once".to_owned(),
    ))
}

/// Holds a delivery for an operator. It is answered with the run of the first, and starts none.
pub(super) async fn hold(
    runtime: &Runtime,
    inbound: &Inbound,
    first: ClaimId,
) -> Result<Intake, IntakeError> {
    runtime.metrics.replays.add_one();
    let accepted = find_first(runtime, inbound, first).await?;
    let subject = Subject::Replay(first);
    let kind = DuplicateVerdict::Held;
    let mut repeat = stopped(runtime, inbound, subject, accepted.run, kind);
    // Of each key by itself: what an operator decides about one says nothing about another that comes
    // with the same body.
    repeat.fingerprint = repeat.fingerprint.with_key(&inbound.key);
    let id = repeat.id();
    // The answer promises that it is stored, so it is on disk before the answer.
    runtime.writers.duplicates.record(repeat).await?;
    held::answer(runtime, inbound, id, accepted).await
}

/// The run that the first delivery of a body has, or will have where it is on its way.
async fn find_first(
    runtime: &Runtime,
    inbound: &Inbound,
    first: ClaimId,
) -> Result<Accepted, ReadError> {
    let held = claims::find(runtime.cell.of(first), first).await?;
    let run = held.map_or_else(|| RunId::derive(first, 0), |held| held.run);
    let snapshot = runs::find_snapshot(runtime.cell.of(run), run).await?;
    Ok(Accepted {
        run,
        key: inbound.key.clone(),
        flow: inbound.release.flow.name.to_string(),
        replayed: true,
        state: snapshot.map_or(RunState::Active, |snapshot| snapshot.state),
        result: None,
        fault: None,
        accepted_at: runtime.clock.now(),
    })
}
