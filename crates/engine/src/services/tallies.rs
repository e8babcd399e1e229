//! Tallies: adds what this process counted to the database, every few seconds.

use std::sync::Arc;
use std::time::Duration;

use semel_store::{ReadError, tallies};

use super::service::{HeldBy, Pace, PassError, Service};
use crate::metrics::Metrics;
use crate::runtime::Runtime;

/// Adds counts to the database.
pub(super) struct TallyUpkeep {
    runtime: Arc<Runtime>,
    pace: Pace,
}

impl TallyUpkeep {
    pub(super) fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            pace: Pace::every(Duration::from_secs(10)),
        }
    }

    async fn flush(&self) -> Result<(), ReadError> {
        let rows = self.runtime.local.tallies.take();
        if rows.is_empty() {
            return Ok(());
        }
        let added = tallies::add(self.runtime.cell.home(), &rows).await;
        if added.is_err() {
            // Where only the answer was lost they count twice: the figures are approximate.
            self.runtime.local.tallies.put_back(&rows);
        }
        added
    }
}

impl Service for TallyUpkeep {
    const NAME: &'static str = "tallies";
    const HELD_BY: HeldBy = HeldBy::EveryServer;

    fn metrics(&self) -> &Metrics {
        &self.runtime.metrics
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    async fn pass(&mut self) -> Result<Duration, PassError> {
        self.flush().await?;
        Ok(self.pace.interval)
    }

    async fn finish(&mut self) {
        if let Err(error) = self.flush().await {
            tracing::warn!(%error, "the counts of the last seconds are lost; lists are not affected");
        }
    }
}
