//! Waiting for a run's end.

use std::sync::Arc;

use std::time::Duration;

use semel_model::RunId;
use semel_model::run::RunState;
use semel_store::ReadError;
use semel_store::runs::{self, RunSnapshot};
use tokio::time::{Instant, timeout_at};

use crate::runtime::Runtime;

/// How often a caller that waits for a run's end looks at the record, where this process does not
/// carry the run.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How often it looks where this process carries the run: its lease may have gone to another.
const LOOK_RARELY: Duration = Duration::from_secs(5);

impl Runtime {
    /// Waits until a run has ended or stopped, at most `patience`, and returns its state.
    /// Nothing when there is no such run.
    pub async fn await_end(
        self: &Arc<Self>,
        run: RunId,
        patience: Duration,
    ) -> Result<Option<RunSnapshot>, ReadError> {
        let deadline = Instant::now() + patience;
        // Before the record is read, so that an end in between is not missed.
        let mut watch = self.local.completions.watch(run);
        let over = |snapshot: &RunSnapshot| snapshot.state != RunState::Active;
        let mut look = !watch.is_carried();
        // The caller is a request: it must not take a connection from the engine's work.
        let cell = self.cell.for_people();
        loop {
            let now = Instant::now();
            if look || now >= deadline {
                let snapshot = runs::find_snapshot(cell.of(run), run).await?;
                if now >= deadline || snapshot.as_ref().is_some_and(over) {
                    return Ok(snapshot);
                }
            }
            let pause = match watch.is_carried() {
                true => LOOK_RARELY,
                false => LOOK_EVERY,
            };
            match timeout_at(deadline.min(now + pause), watch.told()).await {
                Ok(Some(snapshot)) if over(&snapshot) => return Ok(Some(snapshot)),
                Ok(_) | Err(_) => look = true,
            }
        }
    }
}
