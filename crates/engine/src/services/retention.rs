//! Retention: deletes what is past its time, in small batches.

use std::sync::Arc;
use std::time::Duration;

use semel_store::{
    ReadError, alerts, llm_answers, reconcile_passes, refused_deliveries, retention, schedules,
    tallies, webhook_deliveries,
};

use super::service::{Pace, PassError, Service};
use crate::metrics::Metrics;
use crate::runtime::Runtime;

/// Deletes keys, runs, ticks, deliveries and answers that are past their time.
pub(super) struct Retention {
    runtime: Arc<Runtime>,
    pace: Pace,
    /// The pause between two full batches, so that deleting never crowds out accepting.
    batch_pause: Duration,
}

impl Retention {
    pub(super) fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            pace: Pace::from_start(Duration::from_secs(30)),
            batch_pause: Duration::from_millis(100),
        }
    }

    async fn delete_deliveries(&self) -> Result<(), ReadError> {
        while webhook_deliveries::forget(self.runtime.cell.every()).await? > 0 {
            tokio::time::sleep(self.batch_pause).await;
        }
        Ok(())
    }

    async fn delete_ticks(&self) -> Result<(), ReadError> {
        let history = self.runtime.options.history;
        while schedules::forget(self.runtime.cell.every(), history).await? > 0 {
            tokio::time::sleep(self.batch_pause).await;
        }
        Ok(())
    }

    async fn delete_passes(&self) -> Result<(), ReadError> {
        let history = self.runtime.options.history;
        while reconcile_passes::forget(self.runtime.cell.every(), history).await? > 0 {
            tokio::time::sleep(self.batch_pause).await;
        }
        Ok(())
    }

    async fn delete_refused(&self) -> Result<(), ReadError> {
        let history = self.runtime.options.history;
        while refused_deliveries::forget(self.runtime.cell.every(), history).await? > 0 {
            tokio::time::sleep(self.batch_pause).await;
        }
        Ok(())
    }

    async fn delete_tallies(&self) -> Result<(), ReadError> {
        while tallies::forget(self.runtime.cell.home()).await? > 0 {
            tokio::time::sleep(self.batch_pause).await;
        }
        Ok(())
    }

    async fn delete_keys(&self) -> Result<(), ReadError> {
        loop {
            let (forgotten, more) = retention::forget_keys(self.runtime.cell.every()).await?;
            self.metrics().keys_forgotten.add(forgotten);
            if !more {
                return Ok(());
            }
            tokio::time::sleep(self.batch_pause).await;
        }
    }
}

impl Service for Retention {
    const NAME: &'static str = "retention";

    fn metrics(&self) -> &Metrics {
        &self.runtime.metrics
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    async fn pass(&mut self) -> Result<Duration, PassError> {
        retention::sweep(self.runtime.cell.every()).await?;
        llm_answers::forget(self.runtime.cell.every()).await?;
        alerts::forget(self.runtime.cell.home()).await?;
        self.delete_deliveries().await?;
        self.delete_ticks().await?;
        self.delete_passes().await?;
        self.delete_refused().await?;
        self.delete_tallies().await?;
        self.delete_keys().await?;
        Ok(self.pace.interval)
    }
}
