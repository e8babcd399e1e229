//! Cache refresh: brings what this process caches of the configuration up to date: releases,
//! connections, secrets and what is paused.

use std::sync::Arc;
use std::time::Duration;

use super::service::{HeldBy, Pace, PassError, Service};
use crate::metrics::Metrics;
use crate::runtime::Runtime;

/// The longest pause before a refresh that failed is repeated.
const RETRY_MAX: Duration = Duration::from_millis(500);

/// Reloads the catalogue, the vault and what is paused after a change.
pub(super) struct CacheRefresh {
    runtime: Arc<Runtime>,
    pace: Pace,
}

impl CacheRefresh {
    pub(super) fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            pace: Pace {
                backoff_max: RETRY_MAX,
                ..Pace::every(Duration::from_secs(30))
            },
        }
    }
}

impl Service for CacheRefresh {
    const NAME: &'static str = "cache_refresh";
    const HELD_BY: HeldBy = HeldBy::EveryServer;

    fn metrics(&self) -> &Metrics {
        &self.runtime.metrics
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    async fn pass(&mut self) -> Result<Duration, PassError> {
        let releases = self.runtime.catalogue.refresh().await;
        // Even if releases could not be read.
        let vault = self.runtime.vault.refresh().await;
        self.runtime.pauses.refresh().await?;
        vault?;
        releases?;
        Ok(self.pace.interval)
    }

    /// The look that the poller makes twice a second saw another version.
    async fn wake_up(&mut self) {
        self.runtime.signals.config_changed.notified().await;
    }
}
