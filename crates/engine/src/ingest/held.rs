//! Held deliveries: what is kept of one, and its answer once an operator has decided.

use semel_model::{DuplicateId, RunId};
use semel_store::duplicates::{self, ArrivalColumns, HeldArrival};
use semel_store::{ReadError, runs};
use serde_json::Value;

use super::{Accepted, Inbound, Intake, IntakeError};
use crate::runtime::Runtime;

/// Everything besides its payload that a run of the delivery would need. Headers and query only where
/// the flow reads them, as for any run.
pub(super) fn arrival_of(inbound: &Inbound) -> ArrivalColumns {
    let release = &inbound.release;
    let kept = |reads: bool, value: &Value| if reads { value.clone() } else { Value::Null };
    let arrival = HeldArrival {
        flow: release.flow.name.to_string(),
        trigger: inbound.trigger,
        key: inbound.key.text(),
        headers: kept(release.reads_headers, &inbound.headers),
        query: kept(release.reads_query, &inbound.query),
        by: inbound.by.clone(),
        fingerprint: Some(inbound.fingerprint),
    };
    arrival.to_columns()
}

/// Answers a delivery that is held: with the run that an operator gave it, where one did. Nothing is
/// started here, whatever the decision.
pub(super) async fn answer(
    runtime: &Runtime,
    inbound: &Inbound,
    id: DuplicateId,
    first: Accepted,
) -> Result<Intake, IntakeError> {
    let namespace_id = inbound.release.namespace_id;
    let held = duplicates::find_held(runtime.cell.of(id), namespace_id, id).await?;
    let decided = held.and_then(|held| held.decision);
    match decided.and_then(|decision| decision.run) {
        Some(run) => Ok(Intake::Accepted(stands_at(runtime, run, first).await?)),
        None => Ok(Intake::Held(first)),
    }
}

/// The same answer about another run, as that stands now.
async fn stands_at(
    runtime: &Runtime,
    run: RunId,
    accepted: Accepted,
) -> Result<Accepted, ReadError> {
    let snapshot = runs::find_snapshot(runtime.cell.of(run), run).await?;
    let (state, result, fault) = match snapshot {
        Some(now) => (now.state, now.result, now.fault),
        None => (accepted.state, None, None),
    };
    Ok(Accepted {
        run,
        replayed: true,
        state,
        result,
        fault,
        ..accepted
    })
}
