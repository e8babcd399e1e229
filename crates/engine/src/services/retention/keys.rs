//! Keys whose time is over are freed. Nothing else holds this up: senders reuse keys once they may.

use std::sync::Arc;
use std::time::Duration;

use semel_store::{ReadError, retention};

use super::super::service::{HeldBy, Pace, PassError, Service};
use super::EVERY;
use super::batches::{BATCH_PAUSE, repeat};
use crate::metrics::Metrics;
use crate::runtime::Runtime;

/// Frees keys.
pub(crate) struct KeyRetention {
    runtime: Arc<Runtime>,
    pace: Pace,
}

impl KeyRetention {
    pub(crate) fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            pace: Pace::from_start(EVERY),
        }
    }

    /// Frees some keys, and says whether there may be more.
    async fn free_some(&self) -> Result<bool, ReadError> {
        let (freed, more) = retention::forget_keys(self.runtime.cell.every()).await?;
        self.metrics().keys_forgotten.add(freed);
        Ok(more)
    }
}

impl Service for KeyRetention {
    const NAME: &'static str = "retention_keys";
    const HELD_BY: HeldBy = HeldBy::Holders(1);

    fn metrics(&self) -> &Metrics {
        &self.runtime.metrics
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    async fn pass(&mut self) -> Result<Duration, PassError> {
        let this = &*self;
        match repeat(|| this.free_some()).await? {
            true => Ok(BATCH_PAUSE),
            false => Ok(self.pace.interval),
        }
    }
}
