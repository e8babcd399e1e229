//! Returns runs that the session holds and the process does not carry: takes whose answer was lost.

use std::sync::Arc;
use std::time::Duration;

use semel_model::RunId;
use semel_store::ReadError;
use semel_store::queue::{self, Cause};

use crate::runtime::Runtime;

/// How often the queue is compared without a request.
const COMPARE_EVERY: Duration = Duration::from_secs(2);

/// Compares on request and at intervals, for as long as the process lives.
pub(crate) async fn keep_reconciling(runtime: Arc<Runtime>) {
    loop {
        let _ = tokio::time::timeout(COMPARE_EVERY, runtime.work.holdings.asked.notified()).await;
        match reconcile(&runtime).await {
            Ok(0) => {}
            Ok(returned) => {
                tracing::warn!(
                    runs = returned,
                    "returned runs that this session held without a turn"
                );
                runtime.metrics.recovered.add(returned);
                runtime.signals.wake.notify_one();
            }
            // The next renewal asks again.
            Err(error) => {
                tracing::debug!(%error, "failed to compare the queue with the carried runs")
            }
        }
    }
}

/// Returns to the queue what the session holds and the process does not carry. Returns how many.
pub(crate) async fn reconcile(runtime: &Runtime) -> Result<u64, ReadError> {
    let holdings = &runtime.work.holdings;
    let session = runtime.session().id;
    let no_takes = holdings.taking().await;
    let carried = holdings.list_runs(session);
    let mut found = queue::list_held_besides(&runtime.cell, session, &carried).await?;
    found.retain(|held| !holdings.has(session, held));
    drop(no_takes);
    if found.is_empty() {
        return Ok(0);
    }
    let leases: Vec<(RunId, i64)> = found.iter().map(|held| (held.run, held.epoch)).collect();
    queue::return_runs(&runtime.cell, session, &leases, Cause::Trouble).await
}
