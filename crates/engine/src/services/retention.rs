//! Retention: deletes what is past its time, in small batches.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use semel_store::{
    ReadError, alerts, duplicates, llm_answers, reconcile_passes, refused_deliveries, retention,
    schedules, tallies, webhook_deliveries,
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

    async fn delete_duplicates(&self) -> Result<(), ReadError> {
        let history = self.runtime.options.history;
        while duplicates::forget(self.runtime.cell.every(), history).await? > 0 {
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
        let (cell, this) = (&self.runtime.cell, &*self);
        let swept = async { retention::sweep(cell.every()).await.map(drop) };
        let answers = async { llm_answers::forget(cell.every()).await.map(drop) };
        let alerts = async { alerts::forget(cell.home()).await.map(drop) };
        let tasks: [(&str, BoxFuture<'_, Result<(), ReadError>>); 10] = [
            ("commands and bodies", Box::pin(swept)),
            ("answers", Box::pin(answers)),
            ("alerts", Box::pin(alerts)),
            ("deliveries", Box::pin(this.delete_deliveries())),
            ("ticks", Box::pin(this.delete_ticks())),
            ("passes", Box::pin(this.delete_passes())),
            ("refused", Box::pin(this.delete_refused())),
            ("duplicates", Box::pin(this.delete_duplicates())),
            ("tallies", Box::pin(this.delete_tallies())),
            ("keys", Box::pin(this.delete_keys())),
        ];
        // One that fails leaves the others their turn.
        let (mut failed, all) = (Vec::new(), tasks.len());
        for (what, task) in tasks {
            if let Err(error) = task.await {
                self.metrics().service_failures.add_one(Self::NAME);
                tracing::warn!(%error, what, "cannot delete what is past its time");
                failed.push(error);
            }
        }
        match failed.pop() {
            // The database has trouble: the service rests.
            Some(error) if failed.len() + 1 == all => Err(error.into()),
            Some(_) | None => Ok(self.pace.interval),
        }
    }
}
