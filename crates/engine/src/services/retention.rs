//! Retention: what is over is forgotten, in small batches.

use std::sync::Arc;
use std::time::Duration;

use semel_store::{ReadError, llm_answers, partitions, retention, schedules, webhook_deliveries};
use tokio::time::Instant;

use crate::runtime::Runtime;

/// How often each process looks for what is over.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// How long a process rests between two full batches, so that forgetting never crowds out accepting.
const BATCH_PAUSE: Duration = Duration::from_millis(100);

/// How often a process looks through the resource store: listing it may cost money.
const LOOK_THROUGH_EVERY: Duration = Duration::from_secs(6 * 3_600);

/// Forgets what is over, for as long as the process lives.
pub(crate) async fn keep_forgetting(runtime: Arc<Runtime>) {
    let mut looked_through = None::<Instant>;
    loop {
        keep_partitions(&runtime).await;
        if let Err(error) = forget(&runtime).await {
            tracing::warn!(%error, "could not forget what is over");
        }
        if let Err(error) = runtime.resources().expire().await {
            tracing::warn!(%error, "could not remove resources whose time is over");
        }
        if looked_through.is_none_or(|at| at.elapsed() >= LOOK_THROUGH_EVERY) {
            looked_through = Some(Instant::now());
            if let Err(error) = runtime.resources().look_through(runtime.clock.now()).await {
                tracing::warn!(%error, "could not look through the resource store");
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Makes the partitions of the coming months. Whatever is in the way is tried again later, and holds
/// up nothing else.
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
        Err(error) => tracing::warn!(%error, "partitions could not be looked at"),
    }
}

/// Forgets everything that is over now.
pub async fn forget(runtime: &Runtime) -> Result<(), ReadError> {
    retention::sweep(&runtime.cell).await?;
    llm_answers::forget(&runtime.cell).await?;
    while webhook_deliveries::forget(&runtime.cell).await? > 0 {
        tokio::time::sleep(BATCH_PAUSE).await;
    }
    while schedules::forget(&runtime.cell, runtime.options.history).await? > 0 {
        tokio::time::sleep(BATCH_PAUSE).await;
    }
    loop {
        let (forgotten, more) = retention::forget_keys(&runtime.cell).await?;
        runtime.metrics.keys_forgotten.add(forgotten);
        if !more {
            return Ok(());
        }
        tokio::time::sleep(BATCH_PAUSE).await;
    }
}
