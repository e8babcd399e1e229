//! Recovery: runs of dead sessions are due again, and so are runs whose task has lost its worker.

use std::sync::Arc;
use std::time::Duration;

use semel_store::{queue, tasks};

use tokio::time::Instant;

use crate::runtime::Runtime;

/// How often each process looks for expired sessions.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How often each process looks for runs that no session holds.
const STRAYS_EVERY: Duration = Duration::from_secs(10);

/// Frees the runs of expired sessions and of expired task leases, for as long as the process
/// lives.
pub(crate) async fn keep_recovering(runtime: Arc<Runtime>) {
    let every = LOOK_EVERY.min(runtime.options.lease.to_duration() / 4);
    let mut last_strays = Instant::now();
    loop {
        tokio::time::sleep(every).await;
        match queue::recover(&runtime.cell).await {
            Ok(0) => {}
            Ok(recovered) => {
                tracing::info!(runs = recovered, "recovered runs from an expired session");
                runtime.metrics.recovered.add(recovered);
                runtime.signals.wake.notify_one();
            }
            Err(error) => tracing::debug!(%error, "failed to look for expired sessions"),
        }
        if last_strays.elapsed() >= STRAYS_EVERY {
            last_strays = Instant::now();
            match queue::recover_strays(&runtime.cell).await {
                Ok(0) => {}
                Ok(recovered) => {
                    tracing::info!(runs = recovered, "recovered runs that no session holds");
                    runtime.metrics.recovered.add(recovered);
                    runtime.signals.wake.notify_one();
                }
                Err(error) => tracing::debug!(%error, "failed to look for runs without a session"),
            }
        }
        match tasks::lose(runtime.cell.every()).await {
            Ok(0) => {}
            Ok(lost) => {
                tracing::info!(tasks = lost, "the leases of tasks expired");
                runtime.signals.wake.notify_one();
            }
            Err(error) => tracing::debug!(%error, "failed to look for expired task leases"),
        }
    }
}
