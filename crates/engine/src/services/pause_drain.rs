//! Pause drain: when a pause is over, the runs that sleep for it are made due.

use std::sync::Arc;
use std::time::Duration;

use semel_store::pauses;

use super::service::{HeldBy, Pace, PassError, Service};
use crate::metrics::Metrics;
use crate::runtime::Runtime;

/// How long writes that did not see the end of the pause may take before the pass is repeated.
const WRITERS_PATIENCE: Duration = Duration::from_secs(30);

/// Makes runs due that sleep for pauses which are over.
pub(super) struct PauseDrain {
    runtime: Arc<Runtime>,
    pace: Pace,
}

impl PauseDrain {
    pub(super) fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            pace: Pace::every(Duration::from_secs(1)),
        }
    }
}

impl Service for PauseDrain {
    const NAME: &'static str = "pause_drain";
    const HELD_BY: HeldBy = HeldBy::Holders(1);

    fn metrics(&self) -> &Metrics {
        &self.runtime.metrics
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    async fn pass(&mut self) -> Result<Duration, PassError> {
        let cell = &self.runtime.cell;
        let ended = pauses::list_ended(cell.home()).await?;
        if ended.is_empty() {
            return Ok(self.pace.interval);
        }
        // A run may still fall asleep for a pause whose end its worker did not see.
        if !pauses::await_writers(cell, WRITERS_PATIENCE).await? {
            return Err("writes that began before a pause ended are not over".into());
        }
        let woken = pauses::wake(cell.every(), &ended).await?;
        self.runtime.signals.wake.notify_one();
        match woken {
            Some(_) => Ok(Duration::ZERO),
            None => Ok(self.pace.interval),
        }
    }

    async fn wake_up(&mut self) {
        self.runtime.signals.resumed.notified().await;
    }
}
