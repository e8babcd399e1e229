//! Gate exits: removes those that their gates have recorded. Each process knows its own.

use std::sync::Arc;
use std::time::Duration;

use semel_store::{ReadError, gate_exits};

use super::service::{HeldBy, Pace, PassError, Service};
use crate::metrics::Metrics;
use crate::runtime::Runtime;

/// Removes exits that are recorded.
pub(super) struct GateExits {
    runtime: Arc<Runtime>,
    pace: Pace,
}

impl GateExits {
    pub(super) fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            pace: Pace::every(Duration::from_secs(1)),
        }
    }

    /// Removes the exits that this process had recorded.
    async fn remove_recorded(&self) -> Result<(), ReadError> {
        let limiter = &self.runtime.limiter;
        let recorded = limiter.take_recorded_exits();
        if recorded.is_empty() {
            return Ok(());
        }
        let removed = gate_exits::remove(self.runtime.cell.every(), &recorded).await;
        if removed.is_err() {
            limiter.note_recorded_exits(recorded);
        }
        removed
    }
}

impl Service for GateExits {
    const NAME: &'static str = "gate_exits";
    const HELD_BY: HeldBy = HeldBy::EveryServer;

    fn metrics(&self) -> &Metrics {
        &self.runtime.metrics
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    async fn pass(&mut self) -> Result<Duration, PassError> {
        self.remove_recorded().await?;
        Ok(self.pace.interval)
    }
}
