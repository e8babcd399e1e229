//! Resource cleanup: removes large outputs whose time is over, and what was left behind in the
//! resource store.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::service::{HeldBy, Pace, PassError, Service};
use crate::metrics::Metrics;
use crate::resources::ExpireError;
use crate::runtime::Runtime;

/// Removes expired resources, and scans the resource store now and then.
pub(super) struct ResourceCleanup {
    runtime: Arc<Runtime>,
    pace: Pace,
    /// Scanning lists the whole resource store, which may cost money.
    scan_interval: Duration,
    scanned_at: Option<Instant>,
}

impl ResourceCleanup {
    pub(super) fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            pace: Pace::from_start(Duration::from_secs(30)),
            scan_interval: Duration::from_secs(6 * 3_600),
            scanned_at: None,
        }
    }

    /// Scans the resource store if the last scan is long ago. One that fails is repeated after the
    /// same interval, because it costs as much as one that succeeds.
    async fn scan(&mut self) -> Result<(), ExpireError> {
        let recent = |at: Instant| at.elapsed() < self.scan_interval;
        if self.scanned_at.is_some_and(recent) {
            return Ok(());
        }
        self.scanned_at = Some(Instant::now());
        let now = self.runtime.clock.now();
        self.runtime.resources().look_through(now).await
    }
}

impl Service for ResourceCleanup {
    const NAME: &'static str = "resource_cleanup";
    const HELD_BY: HeldBy = HeldBy::Holders(1);

    fn metrics(&self) -> &Metrics {
        &self.runtime.metrics
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    async fn pass(&mut self) -> Result<Duration, PassError> {
        let expired = self.runtime.resources().expire().await;
        self.scan().await?;
        expired?;
        Ok(self.pace.interval)
    }
}
