//! Retention: deletes what is past its time, in small batches.
//!
//! Each part that may take long, because an archive answers slowly or a key has many runs, is a duty of its own, so that
//! it holds up nothing else: keys are freed while an archive hangs.

mod archiving;
mod audit;
mod batches;
mod files;
mod history;
mod keys;
mod policy;
mod runs;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use semel_store::{
    ReadError, alerts, duplicates, llm_answers, reconcile_passes, refused_deliveries, retention,
    schedules, tallies, webhook_deliveries,
};

use super::service::{HeldBy, Pace, PassError, Service};
use crate::metrics::Metrics;
use crate::runtime::Runtime;
pub(super) use audit::AuditRetention;
use batches::{BATCH_PAUSE, delete_all, repeat};
pub(super) use files::FileRetention;
pub(super) use keys::KeyRetention;
pub(super) use runs::RunRetention;

/// How often it is looked for what is past its time.
const EVERY: Duration = Duration::from_secs(30);

/// Deletes ticks, deliveries, answers and other small records that are past their time.
pub(super) struct Retention {
    runtime: Arc<Runtime>,
    pace: Pace,
}

impl Retention {
    pub(super) fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            pace: Pace::from_start(EVERY),
        }
    }
}

impl Service for Retention {
    const NAME: &'static str = "retention";
    const HELD_BY: HeldBy = HeldBy::Holders(1);

    fn metrics(&self) -> &Metrics {
        &self.runtime.metrics
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    async fn pass(&mut self) -> Result<Duration, PassError> {
        let (cell, history) = (&self.runtime.cell, self.runtime.options.history);
        let swept = repeat(|| retention::sweep(cell.every()));
        let answers = delete_all(|| llm_answers::forget(cell.every()));
        let alerts = delete_all(|| alerts::forget(cell.home()));
        let deliveries = delete_all(|| webhook_deliveries::forget(cell.every()));
        let ticks = delete_all(|| schedules::forget(cell.every(), history));
        let passes = delete_all(|| reconcile_passes::forget(cell.every(), history));
        let refused = delete_all(|| refused_deliveries::forget(cell.every(), history));
        let repeats = delete_all(|| duplicates::forget(cell.every(), history));
        let tallies = delete_all(|| tallies::forget(cell.home()));
        let tasks: [(&str, BoxFuture<'_, Result<bool, ReadError>>); 9] = [
            ("commands and bodies", Box::pin(swept)),
            ("answers", Box::pin(answers)),
            ("alerts", Box::pin(alerts)),
            ("deliveries", Box::pin(deliveries)),
            ("ticks", Box::pin(ticks)),
            ("passes", Box::pin(passes)),
            ("refused", Box::pin(refused)),
            ("duplicates", Box::pin(repeats)),
            ("tallies", Box::pin(tallies)),
        ];
        // One that fails leaves the others their turn.
        let (mut failed, mut is_behind) = (Vec::new(), false);
        for (what, task) in tasks {
            match task.await {
                Ok(more) => is_behind |= more,
                Err(error) => failed.push(Undeleted { what, error }),
            }
        }
        match failed.pop() {
            Some(last) => {
                for other in &failed {
                    let (what, error) = (other.what, &other.error);
                    tracing::warn!(%error, what, "cannot delete what is past its time");
                }
                Err(last.into())
            }
            None if is_behind => Ok(BATCH_PAUSE),
            None => Ok(self.pace.interval),
        }
    }
}

/// Some rows could not be deleted.
#[derive(Debug, thiserror::Error)]
#[error("cannot delete what is past its time ({what})")]
struct Undeleted {
    what: &'static str,
    #[source]
    error: ReadError,
}
