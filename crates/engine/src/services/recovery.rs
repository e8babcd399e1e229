//! Recovery: makes runs of dead sessions due again, and runs whose task has lost its worker.
//!
//! A session is dead once its lease is over. It is known dead before, where this process has the lock of the state folder
//! that the session's process had: then it is ended here.

use std::sync::Arc;
use std::time::Duration;

use semel_store::{ReadError, outbox, queue, sessions, tasks};
use tokio::time::Instant;

use super::service::{HeldBy, Pace, PassError, Service};
use crate::metrics::Metrics;
use crate::runtime::Runtime;
use crate::spill;

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

    /// Ends the sessions of processes that had the lock of the state folder, and are dead.
    async fn end_dead(&self) -> Result<(), ReadError> {
        let Runtime {
            cell,
            options,
            lock,
            signals,
            ..
        } = &*self.runtime;
        let (Some(lock), Some(folder)) = (lock, &options.state_dir) else {
            return Ok(());
        };
        let left = lock.list_left();
        if left.is_empty() {
            return Ok(());
        }
        // Before their runs are free, so that no effect that happened is performed again.
        spill::record_spilled(cell, folder, &options.masters).await?;
        let ended = sessions::end_dead(cell, &left, lock.place()).await?;
        if ended > 0 {
            tracing::info!(
                sessions = ended,
                "ended sessions before their leases: the server that had the lock of the state folder is dead"
            );
            outbox::free_lost(cell.every()).await?;
            signals.emitted.notify_one();
        }
        lock.forget(&left).await;
        Ok(())
    }

    async fn recover_expired(&self) -> Result<u64, ReadError> {
        let runs = queue::recover(&self.runtime.cell).await?;
        self.recovered(runs, "took runs back from a session that is over");
        Ok(runs)
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
        let ended = self.end_dead().await;
        let expired = self.recover_expired().await;
        let strays = self.recover_strays().await;
        self.recover_tasks().await?;
        ended.and(strays)?;
        match expired? {
            0 => Ok(self.pace.interval),
            // Until nothing is held.
            _ => Ok(Duration::ZERO),
        }
    }

    async fn wake_up(&mut self) {
        self.runtime.signals.lock_taken.notified().await;
    }
}
