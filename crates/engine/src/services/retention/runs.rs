//! Runs past their history: a walk that goes on pass by pass. An archive that answers slowly holds up nothing else.

use std::sync::Arc;
use std::time::Duration;

use super::super::service::{HeldBy, Pace, PassError, Service};
use super::EVERY;
use super::batches::BATCH_PAUSE;
use super::history::HistoryWalk;
use crate::metrics::Metrics;
use crate::runtime::Runtime;

/// The longest that a pass takes which goes well: the files of one page of large keys are written in it.
const PASS_MAX: Duration = Duration::from_secs(600);

/// Deletes old runs, archived where there is an archive.
pub(crate) struct RunRetention {
    runtime: Arc<Runtime>,
    pace: Pace,
    walk: HistoryWalk,
}

impl RunRetention {
    pub(crate) fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            pace: Pace::from_start(EVERY),
            walk: HistoryWalk::default(),
        }
    }
}

impl Service for RunRetention {
    const NAME: &'static str = "retention_runs";
    const HELD_BY: HeldBy = HeldBy::Holders(1);

    fn metrics(&self) -> &Metrics {
        &self.runtime.metrics
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    fn late_after(&self) -> Duration {
        PASS_MAX
    }

    async fn pass(&mut self) -> Result<Duration, PassError> {
        match self.walk.go_on(&self.runtime).await? {
            true => Ok(BATCH_PAUSE),
            false => Ok(self.pace.interval),
        }
    }
}
