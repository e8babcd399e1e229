//! Retention: deletes expired data, in small batches.

use std::sync::Arc;
use std::time::Duration;

use semel_store::{ReadError, llm_answers, partitions, retention, schedules, webhook_deliveries};
use tokio::time::Instant;

use crate::runtime::Runtime;

/// How often each process looks for expired data.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// How long a process rests between two full batches, so that deletion never crowds out accepting.
const BATCH_PAUSE: Duration = Duration::from_millis(100);

/// How often a process sweeps the resource store: listing it may cost money.
const LOOK_THROUGH_EVERY: Duration = Duration::from_secs(6 * 3_600);

/// Deletes expired data, for as long as the process lives.
pub(crate) async fn keep_forgetting(runtime: Arc<Runtime>) {
    let mut looked_through = None::<Instant>;
    loop {
        keep_partitions(&runtime).await;
        if let Err(error) = forget(&runtime).await {
            tracing::warn!(%error, "retention pass failed");
        }
        if let Err(error) = runtime.resources().expire().await {
            tracing::warn!(%error, "failed to remove expired resources");
        }
        if looked_through.is_none_or(|at| at.elapsed() >= LOOK_THROUGH_EVERY) {
            looked_through = Some(Instant::now());
            if let Err(error) = runtime.resources().look_through(runtime.clock.now()).await {
                tracing::warn!(%error, "failed to sweep the resource store");
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Creates the partitions of the coming months. One that is blocked is tried again later, and
/// delays nothing else.
async fn keep_partitions(runtime: &Runtime) {
    match partitions::keep_up(&runtime.cell).await {
        Ok(upkeep) => {
            runtime.metrics.partitions_missing.set(upkeep.urgent.into());
            if upkeep.urgent > 0 {
                tracing::warn!(
                    missing = upkeep.urgent,
                    "this month or the next has no partition yet: something holds a lock on journal or effects"
                );
            }
        }
        Err(error) => tracing::warn!(%error, "failed to read the partitions"),
    }
}

/// Deletes everything that is expired now.
pub async fn forget(runtime: &Runtime) -> Result<(), ReadError> {
    retention::sweep(runtime.cell.every()).await?;
    llm_answers::forget(runtime.cell.every()).await?;
    while webhook_deliveries::forget(runtime.cell.every()).await? > 0 {
        tokio::time::sleep(BATCH_PAUSE).await;
    }
    while schedules::forget(runtime.cell.every(), runtime.options.history).await? > 0 {
        tokio::time::sleep(BATCH_PAUSE).await;
    }
    loop {
        let (forgotten, more) = retention::forget_keys(runtime.cell.every()).await?;
        runtime.metrics.keys_forgotten.add(forgotten);
        if !more {
            return Ok(());
        }
        tokio::time::sleep(BATCH_PAUSE).await;
    }
}
