//! Partition upkeep: creates the partitions of journal and effects ahead of time, and splits a busy month.

use std::sync::Arc;
use std::time::Duration;

use semel_store::partitions;

use super::service::{HeldBy, Pace, PassError, Service};
use crate::metrics::Metrics;
use crate::runtime::Runtime;

/// Creates the partitions of the coming months.
pub(super) struct PartitionUpkeep {
    runtime: Arc<Runtime>,
    pace: Pace,
}

impl PartitionUpkeep {
    pub(super) fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            pace: Pace::from_start(Duration::from_secs(30)),
        }
    }
}

impl Service for PartitionUpkeep {
    const NAME: &'static str = "partition_upkeep";
    const HELD_BY: HeldBy = HeldBy::Holders(1);

    fn metrics(&self) -> &Metrics {
        &self.runtime.metrics
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    fn hand_over(&mut self) {
        self.metrics().partitions_missing.set(0);
    }

    async fn pass(&mut self) -> Result<Duration, PassError> {
        let upkeep = partitions::keep_up(&self.runtime.cell).await?;
        self.metrics().partitions_missing.set(upkeep.urgent.into());
        if upkeep.urgent > 0 {
            tracing::warn!(
                missing = upkeep.urgent,
                "this month or the next has no partition yet: something holds a lock on journal or effects"
            );
        }
        partitions::split_by_day(&self.runtime.cell, partitions::RUNS_A_DAY_MIN).await?;
        Ok(self.pace.interval)
    }
}
