//! Gate repair: completes exits that a process left unfinished which crashed between two commits.

use std::sync::Arc;
use std::time::Duration;

use semel_store::{ReadError, gate_exits, gates, queue};

use super::service::{HeldBy, Pace, PassError, Service};
use crate::metrics::Metrics;
use crate::runtime::Runtime;
use crate::turn::leave::leave;

/// Completes exits from gates.
pub(super) struct GateRepair {
    runtime: Arc<Runtime>,
    pace: Pace,
}

impl GateRepair {
    pub(super) fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            pace: Pace::every(Duration::from_secs(1)),
        }
    }

    /// Records the exits that another process left unrecorded.
    async fn record_overdue(&self) -> Result<(), ReadError> {
        for exit in gate_exits::take_overdue(&self.runtime.cell).await? {
            leave(&self.runtime, exit, "").await;
        }
        Ok(())
    }

    /// Wakes the runs that a gate has let in, and that have not heard of it.
    async fn wake_overdue(&self) -> Result<(), ReadError> {
        let overdue = gates::list_overdue(&self.runtime.cell).await?;
        if !overdue.is_empty() {
            queue::wake_at_gate(self.runtime.cell.every(), &overdue).await?;
            self.runtime.signals.wake.notify_one();
        }
        Ok(())
    }
}

impl Service for GateRepair {
    const NAME: &'static str = "gate_repair";
    const HELD_BY: HeldBy = HeldBy::Holders(1);

    fn metrics(&self) -> &Metrics {
        &self.runtime.metrics
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    async fn pass(&mut self) -> Result<Duration, PassError> {
        self.record_overdue().await?;
        self.wake_overdue().await?;
        Ok(self.pace.interval)
    }
}
