//! Reconciliation: returns runs that the session holds and the process does not carry, such as those
//! of a take whose response was lost.

use std::sync::Arc;
use std::time::Duration;

use semel_model::RunId;
use semel_store::ReadError;
use semel_store::queue::{self, ReturnCause};

use super::service::{HeldBy, Pace, PassError, Service};
use crate::metrics::Metrics;
use crate::runtime::Runtime;

/// Compares what the session holds with what the process carries, now and then and after every
/// renewal and failed take.
pub(super) struct Reconciliation {
    runtime: Arc<Runtime>,
    pace: Pace,
    /// Whether a comparison was asked for.
    asked: bool,
}

impl Reconciliation {
    pub(super) fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            pace: Pace::every(Duration::from_secs(2)),
            asked: false,
        }
    }
}

impl Service for Reconciliation {
    const NAME: &'static str = "reconciliation";
    const HELD_BY: HeldBy = HeldBy::EveryServer;

    fn metrics(&self) -> &Metrics {
        &self.runtime.metrics
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    async fn pass(&mut self) -> Result<Duration, PassError> {
        // A process that takes no runs compares after its renewals alone.
        if !self.asked && !self.runtime.work.holdings.is_stirred() {
            return Ok(self.pace.interval);
        }
        let returned = reconcile(&self.runtime).await?;
        self.asked = false;
        if returned > 0 {
            tracing::warn!(
                runs = returned,
                "returned runs that this session held and the process did not carry"
            );
            self.metrics().recovered.add(returned);
            self.runtime.signals.wake.notify_one();
        }
        Ok(self.pace.interval)
    }

    async fn wake_up(&mut self) {
        self.runtime.work.holdings.asked.notified().await;
        self.asked = true;
    }
}

/// Returns what the session holds and the process does not carry. Gives how many.
pub(crate) async fn reconcile(runtime: &Runtime) -> Result<u64, ReadError> {
    let holdings = &runtime.work.holdings;
    let session = runtime.session().id;
    let no_takes = holdings.taking().await;
    let carried = holdings.list_runs(session);
    let mut found = queue::list_held_besides(&runtime.cell, session, &carried).await?;
    found.retain(|held| !holdings.has(session, held));
    drop(no_takes);
    if found.is_empty() {
        return Ok(0);
    }
    let leases: Vec<(RunId, i64)> = found.iter().map(|held| (held.run, held.epoch)).collect();
    queue::return_runs(&runtime.cell, session, &leases, ReturnCause::Trouble).await
}
