//! Recovery: runs of dead sessions are due again, and so are runs whose task has lost its worker.

use std::sync::Arc;
use std::time::Duration;

use semel_store::{queue, tasks};

use tokio::time::Instant;

use crate::runtime::Runtime;

/// How often each process looks for the dead.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How often each process looks for runs that no session holds.
const STRAYS_EVERY: Duration = Duration::from_secs(10);

/// Frees the runs of sessions that expired and of workers that fell silent, for as long as the
/// process lives.
pub(crate) async fn keep_recovering(runtime: Arc<Runtime>) {
    let every = LOOK_EVERY.min(runtime.options.lease.to_duration() / 4);
    let mut last_strays = Instant::now();
    loop {
        tokio::time::sleep(every).await;
        match queue::recover(&runtime.cell).await {
            Ok(0) => {}
            Ok(recovered) => {
                tracing::info!(
                    runs = recovered,
                    "took runs back from a session that expired"
                );
                runtime.metrics.recovered.add(recovered);
                runtime.signals.wake.notify_one();
            }
            Err(error) => tracing::debug!(%error, "could not look for expired sessions"),
        }
        if last_strays.elapsed() >= STRAYS_EVERY {
            last_strays = Instant::now();
            match queue::recover_strays(&runtime.cell).await {
                Ok(0) => {}
                Ok(recovered) => {
                    tracing::info!(runs = recovered, "took runs back that no session holds");
                    runtime.metrics.recovered.add(recovered);
                    runtime.signals.wake.notify_one();
                }
                Err(error) => tracing::debug!(%error, "could not look for runs without a session"),
            }
        }
        match tasks::lose(&runtime.cell).await {
            Ok(0) => {}
            Ok(lost) => {
                tracing::info!(tasks = lost, "workers of tasks fell silent");
                runtime.signals.wake.notify_one();
            }
            Err(error) => tracing::debug!(%error, "could not look for silent workers"),
        }
    }
}
