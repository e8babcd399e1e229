//! Recovery: makes runs of dead sessions due again, and runs whose task has lost its worker.

use std::sync::Arc;
use std::time::Duration;

use semel_store::{ReadError, queue, tasks};
use tokio::time::Instant;

use super::service::{HeldBy, Pace, PassError, Service};
use crate::metrics::Metrics;
use crate::runtime::Runtime;

/// How often each process looks for expired sessions; more often if leases are short.
const INTERVAL_MAX: Duration = Duration::from_millis(1_000);

/// Frees the runs of sessions that expired and of workers that fell silent.
pub(super) struct Recovery {
    runtime: Arc<Runtime>,
    pace: Pace,
    /// How often each process looks for runs that no session holds.
    strays_interval: Duration,
    strays_at: Instant,
}

impl Recovery {
    pub(super) fn new(runtime: Arc<Runtime>) -> Self {
        let interval = INTERVAL_MAX.min(runtime.options.lease.to_duration() / 4);
        Self {
            runtime,
            pace: Pace::every(interval),
            strays_interval: Duration::from_secs(10),
            strays_at: Instant::now(),
        }
    }

    async fn recover_expired(&self) -> Result<(), ReadError> {
        let runs = queue::recover(&self.runtime.cell).await?;
        self.recovered(runs, "took runs back from a session that expired");
        Ok(())
    }

    async fn recover_strays(&mut self) -> Result<(), ReadError> {
        if self.strays_at.elapsed() < self.strays_interval {
            return Ok(());
        }
        self.strays_at = Instant::now();
        let runs = queue::recover_strays(&self.runtime.cell).await?;
        self.recovered(runs, "took runs back that no session holds");
        Ok(())
    }

    fn recovered(&self, runs: u64, message: &str) {
        if runs > 0 {
            tracing::info!(runs, "{message}");
            self.metrics().recovered.add(runs);
            self.runtime.signals.wake.notify_one();
        }
    }

    async fn recover_tasks(&self) -> Result<(), ReadError> {
        let lost = tasks::lose(self.runtime.cell.every()).await?;
        if lost > 0 {
            tracing::info!(tasks = lost, "workers of tasks fell silent");
            self.runtime.signals.wake.notify_one();
        }
        Ok(())
    }
}

impl Service for Recovery {
    const NAME: &'static str = "recovery";
    const HELD_BY: HeldBy = HeldBy::Holders(3);

    fn metrics(&self) -> &Metrics {
        &self.runtime.metrics
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    async fn pass(&mut self) -> Result<Duration, PassError> {
        let expired = self.recover_expired().await;
        let strays = self.recover_strays().await;
        self.recover_tasks().await?;
        expired.and(strays)?;
        Ok(self.pace.interval)
    }
}
