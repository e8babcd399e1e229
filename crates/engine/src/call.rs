//! Calls: runs that other runs ask for, and telling those how they ended.
//!
//! ```text
//! caller: intent ══▶ start in the outbox, wait opened ══▶ …sleeps… ══▶ goes on
//!                         └▶ accepted under a key derived from the caller ══▶ … ══▶ end in the outbox
//!                                                                                     └▶ answers the wait
//! ```
//!
//! The two runs live in slots of their own, so each commits for itself, and the outbox carries what
//! one has to tell the other, as often as it must: the claim makes a start once, the wait an end.

use semel_flow::Step;
use semel_model::event::Caller;
use semel_model::{ClaimId, FlowName, Key, KeySpace, RunId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::catalogue::Release;

/// What a caller tells.
pub(crate) const START: &str = "semel.call.start";
/// What a run that was called tells.
pub(crate) const END: &str = "semel.call.end";
/// What a caller tells that was cancelled.
pub(crate) const CANCEL: &str = "semel.call.cancel";

/// A run that is asked for.
#[derive(Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) flow: FlowName,
    pub(crate) key: String,
    pub(crate) input: Value,
    pub(crate) caller: Option<Caller>,
}

/// How a run ended that somebody waits for.
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
