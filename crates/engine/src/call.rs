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
pub(crate) struct Asked {
    pub(crate) flow: FlowName,
    pub(crate) key: String,
    pub(crate) input: Value,
    pub(crate) caller: Option<Caller>,
}

/// How a called run ended, for the run that waits for it.
#[derive(Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) caller: Caller,
    pub(crate) end: Value,
}

/// The key of the run that a step calls, and that run.
pub(crate) fn called(
    release: &Release,
    run: RunId,
    step: &Step,
    flow: &FlowName,
) -> Option<(Key, RunId)> {
    let key = Key::new(format!("{run}/{}", step.id).into_bytes()).ok()?;
    let claim = ClaimId::derive_in(KeySpace::Call, &release.namespace, flow, &key);
    Some((key, RunId::derive(claim, 0)))
}
