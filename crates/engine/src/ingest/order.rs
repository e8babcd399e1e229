//! Order: a delivery that is older than what was accepted of its object starts nothing.
//!
//! ```text
//!   note ══▶ accept ══▶ answer        the newest of its object is accepted
//!   note ──▶ record ══▶ answer        an older one is recorded
//! ```
//!
//! A crash between the first two commits leaves a version that is noted and has no run. When its
//! delivery comes again it is still the newest, and is accepted. A delivery that is accepted while
//! a newer one is noted in the same moment meets it at the gate of the object.

use semel_flow::Scope;
use semel_model::{ClaimId, GateId, Key, RunId, Version};
use semel_store::claims;
use semel_store::object_versions::{self, Age, NewestVersion, VersionRequest, Versioned};
use semel_store::tallies::TallyKind;
use serde_json::json;

use super::{Inbound, IntakeError, refuse};
use crate::gates;
use crate::runtime::Runtime;

/// A delivery that came too late.
#[derive(Clone, Debug)]
pub struct StaleDelivery {
    /// The flow.
    pub flow: String,
    /// Its key.
    pub key: Key,
    /// Its object.
    pub object: String,
    /// Its version.
    pub version: String,
    /// The newest version that was accepted.
    pub newest: String,
    /// The run of the newest.
    pub run: RunId,
}

/// Computes the gates of a delivery, and whether it came too late.
pub(super) async fn judge(
    runtime: &Runtime,
    inbound: &Inbound,
    claim: ClaimId,
) -> Result<Option<StaleDelivery>, IntakeError> {
    let ordered = match tell(inbound, claim) {
        Ok(Some(ordered)) => ordered,
        Ok(None) => return Ok(None),
        Err(reason) => return Err(refuse(runtime, &inbound.release, reason).await),
    };
    let (gate, object, version) = ordered;
    let delivery = Versioned {
        gate,
        claim,
        version,
        keep: inbound.release.flow.keep,
    };
    match write(runtime, VersionRequest::Note(delivery.clone())).await? {
        Age::Newest => Ok(None),
        Age::Mixed(newest) => {
            let (own, known) = (delivery.version.shown(), newest.shown);
            let reason = format!(
                "`order.version`: `{own}` cannot be compared with `{known}`, which came before"
            );
            Err(refuse(runtime, &inbound.release, reason).await)
        }
        Age::Stale(newest) => stale(runtime, inbound, delivery, object, newest).await,
    }
}

/// A delivery that is known is a repeat, whatever its version.
async fn stale(
    runtime: &Runtime,
    inbound: &Inbound,
    delivery: Versioned,
    object: String,
    newest: NewestVersion,
) -> Result<Option<StaleDelivery>, IntakeError> {
    if claims::find(runtime.cell.of(delivery.claim), delivery.claim)
        .await?
        .is_some()
    {
        return Ok(None);
    }
    let held = claims::find(runtime.cell.of(newest.claim), newest.claim).await?;
    let told = StaleDelivery {
        flow: inbound.release.flow.name.to_string(),
        key: inbound.key.clone(),
        object: object.clone(),
        version: delivery.version.shown().to_owned(),
        newest: newest.shown.clone(),
        run: held.map_or_else(|| RunId::derive(newest.claim, 0), |held| held.run),
    };
    let record = object_versions::StaleRow {
        delivery,
        namespace_id: inbound.release.namespace_id,
        flow: told.flow.clone(),
        key: told.key.clone(),
        object,
        newest,
        fingerprint: inbound.fingerprint,
        payload: inbound.text.clone(),
    };
    write(runtime, VersionRequest::Record(Box::new(record))).await?;
    runtime.metrics.stale.add_one();
    let flow = inbound.release.tallied();
    runtime.local.tallies.add(flow, TallyKind::Stale, 1);
    Ok(Some(told))
}

async fn write(runtime: &Runtime, item: VersionRequest) -> Result<Age, IntakeError> {
    Ok(runtime.writers.versions.write(item).await?)
}

/// The gate, the object and the version of a delivery whose trigger has an order. Every gate of its
/// run is computed here once, so that a run which is accepted can be admitted.
fn tell(inbound: &Inbound, claim: ClaimId) -> Result<Option<(GateId, String, Version)>, String> {
    let release = &inbound.release;
    let trigger = json!({ "kind": inbound.trigger.as_str() });
    let run = json!({
        "id": RunId::derive(claim, 0).to_string(),
        "key": inbound.key.text(),
        "flow": release.flow.name.as_str(),
        "release": release.number,
    });
    let scope = Scope::new()
        .with("input", &inbound.input)
        .with("headers", &inbound.headers)
        .with("query", &inbound.query)
        .with("trigger", &trigger)
        .with("run", &run);
    gates::list(release, inbound.trigger.as_str(), &scope)?;
    let Some(order) = gates::order_of(&release.flow, inbound.trigger.as_str()) else {
        return Ok(None);
    };
    let (object, version) = order.tell(&scope)?;
    Ok(Some((gates::order_gate(release, &object), object, version)))
}
