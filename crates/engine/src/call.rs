//! Calls: runs that other runs start, and the report of their end to the caller.
//!
//! ```text
//! caller: intent ══▶ start in the outbox, wait opened ══▶ …sleeps… ══▶ continues
//!                         └▶ accepted under a key derived from the caller ══▶ … ══▶ end in the outbox
//!                                                                                     └▶ completes the wait
//! ```
//!
//! The two runs live in different slots, so each commits for itself, and the outbox carries their
//! messages at least once: the claim deduplicates the start, the wait deduplicates the end.
//!
//! A caller whose call failed calls again once it is resumed, by an effect of its own: the same key
//! and the same wait, which opens again. The called run continues from its ledger, as an item of a
//! list does, so that nothing that it did is done twice. Its end reaches the same wait.

use semel_flow::Step;
use semel_model::event::Caller;
use semel_model::{ClaimId, FlowName, Key, KeySpace, RunId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::catalogue::Release;

/// The message that starts a run.
pub(crate) const START: &str = "semel.call.start";
/// The message that reports the end of a called run.
pub(crate) const END: &str = "semel.call.end";
/// The message of a caller that was cancelled.
pub(crate) const CANCEL: &str = "semel.call.cancel";

/// A run to start.
#[derive(Serialize, Deserialize)]
pub(crate) struct CallRequest {
    pub(crate) flow: FlowName,
    pub(crate) key: String,
    pub(crate) input: Value,
    pub(crate) caller: Option<Caller>,
    /// The claim of the call's key.
    pub(crate) claim: ClaimId,
    /// The call that this one follows, where the caller was resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) again: Option<CallAgain>,
}

/// A call by a run that was resumed: the run that it called before is resumed too.
#[derive(Serialize, Deserialize)]
pub(crate) struct CallAgain {
    /// The operator who resumed the caller, where it was one and not a repeated delivery.
    pub(crate) by: Option<String>,
    /// Whether people who rejected are asked again.
    pub(crate) asks_again: bool,
}

/// How a called run ended, for the run that waits for it.
#[derive(Serialize, Deserialize)]
pub(crate) struct CallEnd {
    pub(crate) caller: Caller,
    pub(crate) end: Value,
}

/// A run whose caller was cancelled.
#[derive(Serialize, Deserialize)]
pub(crate) struct Cancelled {
    /// The claim of the call's key.
    pub(crate) claim: ClaimId,
}

/// The key of the run that a step calls, however often it does and whichever run of its own key
/// calls, and the claim of that key.
pub(crate) fn called(
    release: &Release,
    first: RunId,
    step: &Step,
    flow: &FlowName,
) -> Option<(Key, ClaimId)> {
    let key = Key::new(format!("{first}/{}", step.id).into_bytes()).ok()?;
    let claim = ClaimId::derive_in(KeySpace::Call, &release.namespace, flow, &key);
    Some((key, claim))
}
