//! Whether an input fits the flow's schema: checked for every trigger, before anything is accepted.

use std::sync::Arc;

use semel_model::ClaimId;
use semel_store::{claims, refused_deliveries};

use super::{Inbound, IntakeError};
use crate::catalogue::Release;
use crate::runtime::Runtime;

impl Runtime {
    /// Refuses an input that does not fit the flow's schema, unless its key is known.
    ///
    /// A known key is a repeat, and a repeat gets the first answer, whatever a later release asks
    /// of inputs. A new one has no claim, so that the key stays free for an input that fits.
    pub(super) async fn must_fit(self: &Arc<Self>, inbound: &Inbound) -> Result<(), IntakeError> {
        let release = &inbound.release;
        let schema = release.flow.input_schema.as_ref();
        let Some(problem) = schema.and_then(|schema| schema.misfit(&inbound.input)) else {
            return Ok(());
        };
        let (space, key) = (inbound.space, &inbound.key);
        let claim = ClaimId::derive_in(space, &release.namespace, &release.flow.name, key);
        if claims::find(self.cell.of(claim), claim).await?.is_some() {
            return Ok(());
        }
        let error = IntakeError::InputInvalid(problem.clone());
        note_refusal(self, release, &error, &problem).await;
        Err(error)
    }
}

/// Counts a refusal, and records it unless too many of this flow were recorded just now.
pub(super) async fn note_refusal(
    runtime: &Runtime,
    release: &Release,
    error: &IntakeError,
    reason: &str,
) {
    runtime.metrics.refused.add_one();
    let (id, flow) = (release.namespace_id, release.flow.name.as_str());
    if runtime.local.refusals.admits(id, flow, runtime.clock.now()) {
        record(runtime, release, error, reason).await;
    }
}

/// The same of a delivery of which nothing was read, so that nobody knows whose it is.
pub(super) async fn note_unread(runtime: &Runtime, release: &Release, error: &IntakeError) {
    runtime.metrics.refused.add_one();
    let (id, flow) = (release.namespace_id, release.flow.name.as_str());
    let refusals = &runtime.local.refusals;
    if refusals.admits_unread(id, flow, runtime.clock.now()) {
        record(runtime, release, error, &error.to_string()).await;
    }
}

async fn record(runtime: &Runtime, release: &Release, error: &IntakeError, reason: &str) {
    let (id, flow) = (release.namespace_id, release.flow.name.as_str());
    let kept = refused_deliveries::append(&runtime.cell, id, flow, error.code(), reason).await;
    if let Err(error) = kept {
        tracing::warn!(%error, flow, "failed to record a refused delivery");
    }
}
