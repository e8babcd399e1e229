//! Wake repair: makes runs due that sleep although what they wait for is recorded.
//!
//! A wake is in the commit of what it tells, so this finds nothing: a run that it does find shows a
//! defect, or was left by a build that lost wakes.

use std::sync::Arc;
use std::time::Duration;

use semel_model::RunId;
use semel_store::queue;

use super::service::{HeldBy, Pace, PassError, Service};
use crate::metrics::Metrics;
use crate::runtime::Runtime;

/// Wakes runs that sleep over their answer, a page of the queue at a time.
pub(super) struct WakeRepair {
    runtime: Arc<Runtime>,
    pace: Pace,
    /// Where the last page of the queue ended.
    looked_at: Option<RunId>,
}

impl WakeRepair {
    pub(super) fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            pace: Pace::every(Duration::from_secs(2)),
            looked_at: None,
        }
    }
}

impl Service for WakeRepair {
    const NAME: &'static str = "wake_repair";
    const HELD_BY: HeldBy = HeldBy::Holders(1);

    fn metrics(&self) -> &Metrics {
        &self.runtime.metrics
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    async fn pass(&mut self) -> Result<Duration, PassError> {
        let every = self.runtime.cell.every();
        let (awake, next) = queue::wake_stranded(every, self.looked_at).await?;
        self.looked_at = next;
        if let Some(run) = awake.first() {
            tracing::warn!(run.id = %run, runs = awake.len(),
                "runs slept although what they wait for is recorded; they are due again");
            self.runtime.metrics.wakes_repaired.add(awake.len() as u64);
            self.runtime.signals.wake.notify_one();
        }
        Ok(self.pace.interval)
    }
}
