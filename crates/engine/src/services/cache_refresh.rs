//! Cache refresh: brings what this process caches of the configuration up to date: releases,
//! connections, secrets and what is paused.

use std::sync::Arc;
use std::time::Duration;

use super::service::{Pace, PassError, Service};
use crate::metrics::Metrics;
use crate::runtime::Runtime;

/// Reloads the catalogue, the vault and what is paused after a change.
pub(super) struct CacheRefresh {
    runtime: Arc<Runtime>,
    pace: Pace,
}

impl CacheRefresh {
    pub(super) fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            pace: Pace::every(Duration::from_millis(500)),
        }
    }
}

impl Service for CacheRefresh {
    const NAME: &'static str = "cache_refresh";

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
}
