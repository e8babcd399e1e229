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
//! A delivery that starts nothing is remembered too, if an unsigned part decided that, such as the event's name
//! in a header that `when` reads. Otherwise the ignored body could be sent again under another name:
//!
//! ```text
//!   remember ══▶ answer                       nothing is started
//!   remember ──▶ hold or accept               accepted where the unsigned parts are the same: only the flow
//!                                             has changed since
//! ```
//!
//! A crash between the two commits leaves a body that is remembered and has no run. When it comes
//! again, which it does under the same key, it still is the first of its body and is accepted.

use semel_flow::Path;
use semel_flow::release::Webhook;
use semel_model::run::RunState;
use semel_model::{ClaimId, Key, RunId, SeededBug};
use semel_store::duplicates::{DuplicateVerdict, Subject};
use semel_store::seen_bodies::{self, Body};
use semel_store::{ReadError, claims, runs};
use serde_json::Value;

use super::inbound::Request;
use super::{Accepted, Inbound, Intake, IntakeError, held, stopped};
use crate::catalogue::Release;
use crate::runtime::Runtime;

/// How often a body is looked up that another delivery remembers in the same moment.
const LOOKS_MAX: usize = 8;

/// The traces that a delivery leaves if its signature does not cover all that decides about it.
pub(super) struct Seen {
    /// SHA-256 of its body, or of the text that was signed.
    digest: [u8; 32],
    /// Its stand-in for a key if it starts nothing, different for each reading of its unsigned parts. None
    /// if all that `when` reads is signed: the same body would start nothing again.
    passed_over: Option<ClaimId>,
}

impl Seen {
    /// If the signed text does not settle the payload (`is_settled`), each reading of the payload gets a
    /// `passed_over` of its own.
    pub(super) fn of(
        release: &Release,
        webhook: &Webhook,
        (digest, is_settled): ([u8; 32], bool),
        (request, input): (&Request, &Value),
    ) -> Self {
        let paths = webhook.unsigned_in_when().into_iter();
        let mut read: Vec<&Value> = paths.map(|path| value_at(path, request, input)).collect();
        if !is_settled {
            read.push(input);
        }
        let passed_over = (!read.is_empty()).then(|| {
            let text = Value::from_iter(read.into_iter().cloned()).to_string();
            ClaimId::passed_over(&release.namespace, &release.flow.name, text.as_bytes())
        });
        Self {
            digest,
            passed_over,
        }
    }

    fn body<'a>(&'a self, release: &'a Release, claim: ClaimId) -> Body<'a> {
        Body {
            namespace_id: release.namespace_id,
            flow: release.flow.name.as_str(),
            digest: &self.digest,
            claim,
            passed_over: self.passed_over,
            keep: release.flow.keep,
        }
    }
}

/// The value at a path of a delivery, as far down as the path is known; null if there is none.
fn value_at<'a>(path: &Path, request: &'a Request, input: &'a Value) -> &'a Value {
    let root = match path.root.as_str() {
        "headers" => &request.headers,
        "query" => &request.query,
        _ => input,
    };
    let mut fields = path.fields.iter();
    let found = fields.try_fold(root, |value, name| value.get(name));
    found.unwrap_or(&Value::Null)
}

/// Remembers a delivery that starts nothing. One that came before keeps its name.
pub(super) async fn pass_over(
    runtime: &Runtime,
    release: &Release,
    seen: Option<&Seen>,
) -> Result<(), IntakeError> {
    let Some(seen) = seen else { return Ok(()) };
    if let Some(name) = seen.passed_over {
        let body = seen.body(release, name);
        seen_bodies::remember(runtime.cell.of(body), body).await?;
    }
    Ok(())
}

/// The other key under which a body came before, where there is one. A new body is remembered.
pub(super) async fn earlier_key(
    runtime: &Runtime,
    release: &Release,
    seen: &Seen,
    key: &Key,
) -> Result<Option<ClaimId>, IntakeError> {
    let claim = ClaimId::derive(&release.namespace, &release.flow.name, key);
    let body = seen.body(release, claim);
    for _ in 0..LOOKS_MAX {
        let first = seen_bodies::remember(runtime.cell.of(body), body).await?;
        // Another delivery took that place in the same moment.
        let first = first.filter(|first| Some(*first) != seen.passed_over);
        if let Some(first) = first {
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
