//! Clears exits from gates, and completes what a process left undone that crashed between two
//! commits.

use std::sync::Arc;
use std::time::Duration;

use semel_store::{ReadError, gate_exits, gates, queue};

use crate::runtime::Runtime;
use crate::turn::leave::leave;

/// How often exits are cleared, and looked for where another process left them behind.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Clears exits, and completes what another process left undone, for as long as the process lives.
pub(crate) async fn keep_telling(runtime: Arc<Runtime>) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let told = runtime.limiter.take_told();
        if !told.is_empty()
            && let Err(error) = gate_exits::remove(runtime.cell.every(), &told).await
        {
            tracing::debug!(%error, "failed to clear gate exits; retrying");
            runtime.limiter.note_told(told);
        }
        if let Err(error) = make_good(&runtime).await {
            tracing::debug!(%error, "failed to look for gate exits");
        }
    }
}

async fn make_good(runtime: &Runtime) -> Result<(), ReadError> {
    for departure in gate_exits::take_overdue(&runtime.cell).await? {
        leave(runtime, departure, "").await;
    }
    let overdue = gates::list_overdue(&runtime.cell).await?;
    if !overdue.is_empty() {
        queue::summon(runtime.cell.every(), &overdue).await?;
        runtime.signals.wake.notify_one();
    }
    Ok(())
}
