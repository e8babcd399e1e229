//! Lease renewal: renews the session of the process, begins another when it is lost, and tries to get the lock of the
//! state folder while another process has it.

use std::sync::Arc;
use std::time::Duration;

use semel_store::{ReadError, sessions};

use super::service::{HeldBy, Pace, PassError, Service};
use crate::boottime::Boottime;
use crate::metrics::Metrics;
use crate::runtime::{Runtime, StartError, WorkerSession};

/// The longest pause before a renewal that failed is repeated.
const RETRY_MAX: Duration = Duration::from_millis(200);

/// The shortest pause between two renewals, however short the lease.
const INTERVAL_MIN: Duration = Duration::from_millis(20);

/// Renews the session of the process.
pub(super) struct LeaseRenewal {
    runtime: Arc<Runtime>,
    pace: Pace,
}

impl LeaseRenewal {
    pub(super) fn new(runtime: Arc<Runtime>) -> Self {
        let interval = INTERVAL_MIN.max(runtime.options.lease.to_duration() / 3);
        let pace = Pace {
            backoff_max: interval.min(RETRY_MAX),
            ..Pace::every(interval)
        };
        Self { runtime, pace }
    }

    /// Renews the session; says whether it is still valid.
    async fn renew(&self, session: &WorkerSession) -> Result<bool, ReadError> {
        let begun = Boottime::now();
        let lease = self.runtime.options.lease;
        match sessions::renew(&self.runtime.cell, session.id, lease).await? {
            Some(now) => {
                self.runtime.clock.set(now);
                session.renewed(begun, lease);
                self.runtime.work.holdings.ask();
                Ok(true)
            }
            None => {
                session.lost();
                tracing::warn!(session.id = %session.id, "the lease was lost; a new session begins");
                Ok(false)
            }
        }
    }

    async fn begin_anew(&self) -> Result<(), StartError> {
        let Runtime {
            cell,
            options,
            reach,
            lock,
            ..
        } = &*self.runtime;
        let (process, lease) = (&options.process, options.lease);
        let session = WorkerSession::begin(cell, process, lease, reach, lock.as_ref()).await?;
        self.runtime.set_session(Arc::new(session));
        self.runtime.signals.wake.notify_one();
        Ok(())
    }

    /// Tries to get the lock of the state folder, and names the session in it. What fails is tried at the next renewal.
    async fn keep_lock(&self) {
        let runtime = &self.runtime;
        let Some(lock) = &runtime.lock else {
            return;
        };
        if lock.became_holder().await {
            tracing::info!(
                "this server has the lock of its state folder: the one that had it is gone"
            );
            runtime.signals.lock_taken.notify_one();
        }
        if let Err(error) = runtime.session().note_lock(&runtime.cell, lock).await {
            tracing::debug!(%error, "failed to note the lock of the state folder");
        }
    }
}

impl Service for LeaseRenewal {
    const NAME: &'static str = "lease_renewal";
    const HELD_BY: HeldBy = HeldBy::EveryServer;

    fn metrics(&self) -> &Metrics {
        &self.runtime.metrics
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    async fn pass(&mut self) -> Result<Duration, PassError> {
        let session = self.runtime.session();
        if session.is_lost() || !self.renew(&session).await? {
            self.begin_anew().await?;
        }
        self.keep_lock().await;
        Ok(self.pace.interval)
    }
}
