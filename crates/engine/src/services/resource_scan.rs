//! Resource scan: looks through the whole resource store for what was left behind in it. A duty of its own, because it
//! takes long and may cost money: it holds up no cleanup, and is not repeated because a cleanup is late.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::service::{HeldBy, Pace, PassError, Service};
use crate::metrics::Metrics;
use crate::runtime::Runtime;

/// How long two scans are apart. One that fails is repeated after as long, because it costs as much as one that succeeds.
const SCAN_EVERY: Duration = Duration::from_secs(6 * 3_600);

/// Scans the resource store now and then.
pub(super) struct ResourceScan {
    runtime: Arc<Runtime>,
    pace: Pace,
    /// When the last scan of this server began; none before the first.
    scanned_at: Option<Instant>,
}

impl ResourceScan {
    pub(super) fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            pace: Pace {
                backoff_min: SCAN_EVERY,
                ..Pace::from_start(SCAN_EVERY)
            },
            scanned_at: None,
        }
    }
}

impl Service for ResourceScan {
    const NAME: &'static str = "resource_scan";
    const HELD_BY: HeldBy = HeldBy::Holders(1);

    fn metrics(&self) -> &Metrics {
        &self.runtime.metrics
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    async fn pass(&mut self) -> Result<Duration, PassError> {
        // The duty may have passed to another server and back.
        let is_recent = |at: Instant| at.elapsed() < SCAN_EVERY / 2;
        if self.scanned_at.is_some_and(is_recent) {
            return Ok(self.pace.interval);
        }
        self.scanned_at = Some(Instant::now());
        let now = self.runtime.clock.now();
        self.runtime.resources().look_through(now).await?;
        Ok(self.pace.interval)
    }
}
