//! Seeded bugs of accepting, for the tests that show that such bugs are detected.

use std::sync::Arc;

use semel_model::run::RunState;
use semel_model::{ClaimId, ClaimVerdict, DeliveryId, RunId, SeededBug};
use semel_store::claims::{AcceptResult, Delivery};

use crate::runtime::Runtime;

/// The claim of a delivery; a bug gives every delivery one of its own.
pub(super) fn claim(claim: ClaimId) -> ClaimId {
    match SeededBug::KeyNotUnique.is_seeded() {
        true => ClaimId::from_uuid(*DeliveryId::generate().as_uuid()),
        false => claim,
    }
}

/// Answers for a delivery before it is written. Only ever reached by a seeded bug.
pub(super) fn acknowledge(runtime: &Arc<Runtime>, mut delivery: Delivery) -> AcceptResult {
    (delivery.holder, delivery.first_effect) = (None, None);
    let run = RunId::derive(delivery.claim, 0);
    let writing = runtime.clone();
    tokio::spawn(async move { writing.writers.accept.write(delivery).await });
    AcceptResult {
        verdict: ClaimVerdict::New,
        run,
        state: RunState::Active,
        result: None,
        fault: None,
        accepted_at: runtime.clock.now(),
        follows: None,
        undecided: false,
        lost_lease: false,
    }
}
