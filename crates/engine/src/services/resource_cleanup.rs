//! Resource cleanup: removes large outputs whose time is over.

use std::sync::Arc;
use std::time::Duration;

use super::service::{HeldBy, Pace, PassError, Service};
use crate::metrics::Metrics;
use crate::runtime::Runtime;

/// The longest that a pass takes which goes well: many objects are set aside in it, one by one.
const PASS_MAX: Duration = Duration::from_secs(600);

/// Removes expired resources.
pub(super) struct ResourceCleanup {
    runtime: Arc<Runtime>,
    pace: Pace,
}

impl ResourceCleanup {
    pub(super) fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            pace: Pace::from_start(Duration::from_secs(30)),
        }
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

    fn late_after(&self) -> Duration {
        PASS_MAX
    }

    async fn pass(&mut self) -> Result<Duration, PassError> {
        self.runtime.resources().expire().await?;
        Ok(self.pace.interval)
    }
}
